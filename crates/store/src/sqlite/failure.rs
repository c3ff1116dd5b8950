//! What SQLite's errors mean to a caller.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::error::Error;

/// The answer to a caller whose request failed in the database. Nothing was changed.
#[allow(clippy::needless_pass_by_value)] // the shape that map_err wants
pub(super) fn failure(error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            Error::Unavailable("the disk is full; free some space and repeat the request".into())
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::Unavailable("another process holds the database; repeat the request".into())
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            Error::Unusable(format!("the file is damaged or not a SQLite database ({error})"))
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            Error::Unavailable(format!("the file cannot be written ({error}); check its permissions"))
        }
        _ => Error::Unavailable(format!("the database answered: {error}")),
    }
}

/// The same error, with the name of the file that it is about.
pub(super) fn of_file(path: &Path, error: Error) -> Error {
    let named = |why: String| match path.display().to_string() {
        path if why.starts_with(&path) => why,
        path => format!("{path}: {why}"),
    };
    match error {
        Error::Unusable(why) => Error::Unusable(named(why)),
        Error::Unavailable(why) => Error::Unavailable(named(why)),
        other => other,
    }
}

/// Whether the device itself failed. What reached it is then uncertain, so nothing more is written through
/// this handle.
pub(super) fn is_device_failure(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::SystemIoFailure | ErrorCode::DatabaseCorrupt))
}

/// Whether a row holds what this version does not know: a newer version wrote it, or a hand.
pub(super) fn is_unreadable(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    matches!(
        error,
        FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..)
    )
}

pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
