//! What the database's errors mean.

use std::error::Error as _;

use tokio_postgres::error::SqlState;
use windlass_core::{Invalid, Rejected};

use super::row::Foreign;
use crate::error::Error;

/// Why a transaction was not carried out. Except for [`Error::Unknown`], nothing was changed.
#[derive(Debug)]
pub(super) enum Failure {
    /// A row was not as it was believed to be: look again.
    Moved,
    /// Two transactions stood in each other's way: begin again.
    Again(Error),
    /// Anything else.
    Final(Error),
}

impl Failure {
    /// The error, for callers who do not try again.
    pub(super) fn error(self) -> Error {
        match self {
            Self::Moved => Error::Unavailable("rows change faster than they can be read; try again".into()),
            Self::Again(error) | Self::Final(error) => error,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

impl From<Rejected> for Failure {
    fn from(rejected: Rejected) -> Self {
        Self::Final(rejected.into())
    }
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        Self::Final(invalid.into())
    }
}

impl From<Foreign> for Failure {
    fn from(Foreign(why): Foreign) -> Self {
        Self::Final(Error::Unavailable(format!("a row cannot be read: {why}")))
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let said = words(&error);
        match error.code() {
            // The guards at the end of statements divide by zero.
            Some(&SqlState::DIVISION_BY_ZERO) => Self::Moved,
            Some(&(SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED)) => {
                Self::Again(Error::Unavailable(said))
            }
            Some(
                &(SqlState::UNDEFINED_TABLE
                | SqlState::UNDEFINED_COLUMN
                | SqlState::UNDEFINED_FUNCTION
                | SqlState::INVALID_SCHEMA_NAME
                | SqlState::INSUFFICIENT_PRIVILEGE),
            ) => Self::Final(Error::Unusable(said)),
            _ => Self::Final(Error::Unavailable(said)),
        }
    }
}

/// What an error during COMMIT means: only a refusal that the server itself gives its reasons for is sure to
/// have undone everything.
pub(super) fn at_commit(error: &tokio_postgres::Error) -> Failure {
    let said = words(error);
    match error.code().map(|code| &code.code()[..2]) {
        Some("40") => Failure::Again(Error::Unavailable(said)),
        Some("23") => Failure::Final(Error::Unavailable(said)),
        _ => Failure::Final(Error::Unknown(said)),
    }
}

/// An error in one line.
pub(super) fn words(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => {
            let hint = said.hint().or(said.detail()).map(|hint| format!(" ({hint})")).unwrap_or_default();
            format!("PostgreSQL says: {}{hint} [{}]", said.message(), said.code().code())
        }
        None => {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            format!("{error}{cause}")
        }
    }
}
