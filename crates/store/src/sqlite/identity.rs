//! Whether the files at the store's path are still those that were opened.
//!
//! SQLite keeps writing to a file that was removed or renamed: commits succeed and are gone, or are where
//! nobody looks for them. So the writer compares device and inode of the database, its log and its index
//! around every commit.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What a store consists of, beside its path.
const ENDINGS: [&str; 3] = ["", "-wal", "-shm"];

/// The files of a store, as they were when it was opened.
#[derive(Clone, Debug)]
pub(super) struct Identity(Vec<(PathBuf, Option<(u64, u64)>)>);

impl Identity {
    /// Of the store at `path`, which is open: its log exists.
    pub(super) fn of(path: &Path) -> Self {
        let files = ENDINGS.map(|ending| {
            let mut name = OsString::from(path);
            name.push(ending);
            let path = PathBuf::from(name);
            let found = inode(&path).ok().flatten();
            (path, found)
        });
        Self(files.into())
    }

    /// What has happened to one of the files, if something has.
    pub(super) fn change(&self) -> Option<String> {
        self.0.iter().find_map(|(path, opened)| {
            // What cannot be looked at for another reason is not known to have changed.
            let found = inode(path).ok()?;
            let what = match (opened, found) {
                (Some(opened), Some(found)) if *opened != found => "was replaced by another file",
                (Some(_), None) => "was removed or moved away",
                _ => return None,
            };
            Some(format!("{} {what} while it was open", path.display()))
        })
    }
}

/// Device and inode; nothing, if there is no such file.
#[cfg(unix)]
fn inode(path: &Path) -> std::io::Result<Option<(u64, u64)>> {
    use std::os::unix::fs::MetadataExt;
    match std::fs::metadata(path) {
        Ok(found) => Ok(Some((found.dev(), found.ino()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Elsewhere an open file can be neither removed nor renamed.
#[cfg(not(unix))]
fn inode(_: &Path) -> std::io::Result<Option<(u64, u64)>> {
    Err(std::io::ErrorKind::Unsupported.into())
}
