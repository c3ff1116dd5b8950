//! A copy in the making: a directory of its own beside the place where it will be, gone if anything fails.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use tempfile::{Builder, TempDir, TempPath};
use windlass::Timestamp;
use windlass_store::sqlite::backup::{self, Contents, Copied};

use super::Watch;
use crate::moment;

/// How the names of directories of drafts end.
pub(crate) const ENDING: &str = ".partial";

/// The beginnings of files that can be restored.
const PLAIN: &[u8] = b"SQLite format 3\0";
const GZIP: &[u8] = &[0x1f, 0x8b];

/// A copy that does not have its name yet.
#[derive(Debug)]
pub(crate) struct Draft(TempDir);

impl Draft {
    /// For the file at `path`, in the same directory, so that it can be given its name in one go.
    pub(crate) fn beside(path: &Path) -> Result<Self> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let name = path.file_name().ok_or_else(|| anyhow!("{} names no file", path.display()))?;
        Self::in_directory(parent.unwrap_or(Path::new(".")), &name.to_string_lossy())
    }

    pub(crate) fn in_directory(directory: &Path, name: &str) -> Result<Self> {
        let made = Builder::new().prefix(&format!(".{name}.")).suffix(ENDING).tempdir_in(directory);
        Ok(Self(made.with_context(|| format!("{} cannot be written to", directory.display()))?))
    }

    fn database(&self) -> PathBuf {
        self.0.path().join("store.db")
    }

    fn archive(&self) -> PathBuf {
        self.0.path().join("store.db.gz")
    }

    /// Copies a store that may be in use, and verifies the copy.
    pub(crate) fn copy(&self, from: &Path, watch: Watch<'_>) -> Result<(Contents, Timestamp)> {
        let taken_at = moment::now();
        backup::copy(from, &self.database(), &mut |copied| watch("copying", copied))?;
        Ok((self.verify(watch)?, taken_at))
    }

    fn verify(&self, watch: Watch<'_>) -> Result<Contents> {
        let total = fs::metadata(self.database())?.len();
        if watch("checking", Copied { bytes: 0, total }).is_break() {
            return Err(anyhow!("stopped"));
        }
        Ok(backup::verify(&self.database())?)
    }

    /// Compresses the verified copy, and verifies that too.
    pub(crate) fn compress(&self, watch: Watch<'_>) -> Result<u64> {
        let mut archive = BufWriter::new(File::create(self.archive())?);
        let written = self.compress_to(&mut archive, watch)?;
        archive.into_inner().map_err(io::IntoInnerError::into_error)?;
        let (packed, total) = (File::open(self.archive())?, fs::metadata(self.database())?.len());
        // The checksum at the end of the archive is compared when its end is read.
        let read = pour(MultiGzDecoder::new(BufReader::new(packed)), io::sink(), "checking", total, watch)?;
        if read != total {
            return Err(anyhow!("the archive holds {read} of {total} bytes"));
        }
        fs::remove_file(self.database())?;
        Ok(written)
    }

    /// Compresses the verified copy; says how many bytes that are.
    pub(crate) fn compress_to(&self, to: &mut dyn Write, watch: Watch<'_>) -> Result<u64> {
        let database = File::open(self.database())?;
        let total = database.metadata()?.len();
        let mut packed = GzEncoder::new(Counted { to, bytes: 0 }, Compression::fast());
        pour(database, &mut packed, "compressing", total, watch)?;
        let counted = packed.finish()?;
        counted.to.flush()?;
        Ok(counted.bytes)
    }

    /// Takes in what is to be restored, whatever form it has, and verifies it. `path` names it, if it is a
    /// file.
    pub(crate) fn take(
        &self,
        source: impl Read,
        path: Option<&Path>,
        total: u64,
        watch: Watch<'_>,
    ) -> Result<Contents> {
        let mut source = BufReader::with_capacity(1 << 16, source);
        let mut start = Vec::new();
        source.by_ref().take(16).read_to_end(&mut start)?;
        let whole = start.chain(source);
        let (name, log) = (path.map_or("it".into(), |path| path.display().to_string()), path.map(log_of));
        if start.starts_with(PLAIN) {
            match (path, log) {
                // A database that is in use, or was when its process died: part of it is in its log.
                (Some(path), Some(log)) if log.exists() => {
                    backup::copy(path, &self.database(), &mut |copied| watch("copying", copied))?;
                }
                _ => drop(pour(whole, File::create(self.database())?, "copying", total, watch)?),
            }
        } else if start.starts_with(GZIP) {
            let plain = MultiGzDecoder::new(whole);
            let unpacked = pour(plain, File::create(self.database())?, "unpacking", total, watch);
            unpacked.with_context(|| format!("{name} is not whole"))?;
        } else {
            return Err(anyhow!("{name} is neither a SQLite database nor gzip"));
        }
        self.verify(watch).with_context(|| format!("{name} cannot be restored"))
    }

    /// Flushes the copy to the disk and gives it its name, unless something has that name.
    pub(crate) fn publish(self, to: &Path) -> Result<()> {
        let archive = self.archive();
        let made = if archive.exists() { archive } else { self.database() };
        File::options()
            .write(true)
            .open(&made)?
            .sync_all()
            .context("the copy cannot be flushed to the disk")?;
        #[cfg(unix)]
        fs::set_permissions(&made, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        // A temporary path, so that it is moved without overwriting.
        TempPath::try_from_path(&made)?.persist_noclobber(to).map_err(|refused| {
            match refused.error.kind() {
                io::ErrorKind::AlreadyExists => {
                    anyhow!("{} exists, and nothing is overwritten; choose another name", to.display())
                }
                _ => anyhow::Error::new(refused.error).context(format!("{} cannot be written", to.display())),
            }
        })?;
        let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
        // The name is on the disk, too.
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(())
    }
}

/// The log that belongs to a database.
pub(crate) fn log_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Copies bytes, and says how many.
fn pour(mut from: impl Read, mut to: impl Write, what: &str, total: u64, watch: Watch<'_>) -> Result<u64> {
    let (mut buffer, mut bytes) = (vec![0; 1 << 20], 0);
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => {
                to.flush()?;
                return Ok(bytes);
            }
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        to.write_all(&buffer[..read])?;
        bytes += u64::try_from(read)?;
        if let ControlFlow::Break(()) = watch(what, Copied { bytes, total: total.max(bytes) }) {
            return Err(anyhow!("stopped"));
        }
    }
}

/// Counts what is written.
struct Counted<'a> {
    to: &'a mut dyn Write,
    bytes: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
