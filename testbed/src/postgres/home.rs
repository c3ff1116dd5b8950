//! The private directory of one server, and the account that owns it.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, io};

use super::find::Installation;
use super::{at, provision};

/// PostgreSQL refuses to run as root; the first of these that exists does it instead.
const ACCOUNTS: [&str; 2] = ["postgres", "nobody"];

/// A directory in the system's temporary one, removed when this is dropped.
#[derive(Debug)]
pub(super) struct Home {
    path: PathBuf,
    data: PathBuf,
    /// Who owns the directory and runs what is in it, where it is not the user of this process.
    account: Option<Account>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Account {
    name: String,
    uid: u32,
    gid: u32,
}

impl Home {
    pub(super) fn new() -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mut attempts = 0;
        let (path, name) = loop {
            let name = format!("{}-{}", process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
            let path = env::temp_dir().join(format!("windlass-postgres-{name}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => break (path, name),
                // A killed process that had this process id may have left it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempts < 1000 => {
                    attempts += 1;
                }
                Err(error) => return Err(at(&path)(error)),
            }
        };
        spread(&path);
        let data = path.join(format!("data-{name}"));
        let mut home = Self { path, data, account: None };
        // The standard library does not tell who runs this process; what it makes does.
        if fs::metadata(&home.path)?.uid() == 0 {
            let account = Account::for_server(&fs::read_to_string("/etc/passwd")?)?;
            chown(&home.path, Some(account.uid), Some(account.gid)).map_err(at(&home.path))?;
            home.account = Some(account);
            home.check_entry()?;
        }
        Ok(home)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the data go. Nothing is there at first.
    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    /// A command that runs here, as the owner, and is not led astray by the environment.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = clean_command(program);
        command.current_dir(&self.path);
        if let Some(account) = &self.account {
            command.uid(account.uid).gid(account.gid).env("HOME", &self.path);
        }
        command
    }

    /// Where the owner can run the installation's programs: where they are or, if that is below a directory
    /// that only root may enter, in a copy made here.
    pub(super) fn bin(&self, installation: &Installation) -> io::Result<PathBuf> {
        let bin = &installation.bin;
        let Some(account) = &self.account else { return Ok(bin.clone()) };
        if self.command("test").arg("-x").arg(bin.join("postgres")).status()?.success() {
            return Ok(bin.clone());
        }
        // What was provisioned works wherever it is put, as a whole.
        let mut parts = bin
            .strip_prefix(provision())
            .map_err(|_| {
                io::Error::other(format!("`{}` may not run what is in {}", account.name, bin.display()))
            })?
            .components();
        let package = provision().join(parts.next().map_or(OsStr::new(""), |part| part.as_os_str()));
        let copy = self.path.join("installation");
        let owner = Some(account);
        rebuild(&package, &copy, owner, &|source, target| link_or_copy(source, target, owner))?;
        Ok(copy.join(parts.as_path()))
    }

    /// Copies a directory into this one, for the owner.
    pub(super) fn copy_in(&self, from: &Path, to: &Path) -> io::Result<()> {
        let owner = self.account.as_ref();
        rebuild(from, to, owner, &|source, target| copy(source, target, owner))
    }

    fn check_entry(&self) -> io::Result<()> {
        self.command("true").status().map_err(at(&self.path)).map(drop).map_err(|error| {
            let message = format!("{error}; let TMPDIR name a directory that every user may enter");
            io::Error::new(error.kind(), message)
        })
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Gone already if a guard was faster. What cannot be removed is in a directory that the system
        // empties.
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Account {
    fn for_server(passwd: &str) -> io::Result<Self> {
        ACCOUNTS.iter().find_map(|name| passwd.lines().find_map(|line| Self::read(line, name))).ok_or_else(|| {
            let names = ACCOUNTS.join("` or `");
            io::Error::other(format!(
                "PostgreSQL does not run as root, and there is no account `{names}`; add one, or run the tests as \
                 another user"
            ))
        })
    }

    /// `name:password:uid:gid:…`
    fn read(line: &str, name: &str) -> Option<Self> {
        let mut fields = line.strip_prefix(name)?.strip_prefix(':')?.split(':').skip(1);
        let uid = fields.next()?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(Self { name: name.to_owned(), uid, gid })
    }
}

/// Tells ext4 to put each directory made in this one, by its name, somewhere else on the disk. Where a
/// thousand files were removed a moment ago, making a thousand takes seconds on an ext4 without a journal, as
/// virtual machines have it, and servers are made and removed all the time. Other file systems refuse, and
/// have no need of it.
fn spread(directory: &Path) {
    let mut command = Command::new("chattr");
    let _ = command.arg("+T").arg(directory).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// A command without the variables that would change what a server or `psql` does.
pub(super) fn clean_command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("PG")) {
            command.env_remove(name);
        }
    }
    command.env("LC_ALL", "C");
    command
}

/// Copies a data directory for the user of this process.
pub(super) fn copy_plainly(from: &Path, to: &Path) -> io::Result<()> {
    rebuild(from, to, None, &|source, target| copy(source, target, None))
}

/// Makes the same directories again, with each file in them as the last argument makes it.
fn rebuild(
    from: &Path,
    to: &Path,
    owner: Option<&Account>,
    make: &dyn Fn(&Path, &Path) -> io::Result<()>,
) -> io::Result<()> {
    // PostgreSQL refuses a data directory that others may enter.
    DirBuilder::new().mode(0o700).create(to).map_err(at(to))?;
    for entry in fs::read_dir(from).map_err(at(from))? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            rebuild(&source, &target, owner, make)?;
        } else {
            make(&source, &target)?;
        }
    }
    give(to, owner)
}

fn copy(source: &Path, target: &Path, owner: Option<&Account>) -> io::Result<()> {
    fs::copy(source, target).map_err(at(target))?;
    give(target, owner)
}

/// A second name costs nothing, but does for an account only if everyone may read the file, and not across
/// disks.
fn link_or_copy(source: &Path, target: &Path, owner: Option<&Account>) -> io::Result<()> {
    let readable = fs::metadata(source).map_err(at(source))?.mode() & 0o004 != 0;
    if readable && fs::hard_link(source, target).is_ok() { Ok(()) } else { copy(source, target, owner) }
}

fn give(path: &Path, owner: Option<&Account>) -> io::Result<()> {
    match owner {
        Some(owner) => chown(path, Some(owner.uid), Some(owner.gid)).map_err(at(path)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_made_for_it_comes_before_the_one_of_nobody() {
        let nobody = "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65533:nobody:/:/bin/false\n";
        let found = Account::for_server(nobody).unwrap();
        assert_eq!((found.uid, found.gid), (65534, 65533));
        let both = format!("{nobody}postgres2:x:7:7::/:\npostgres:x:101:104:PostgreSQL:/:/bin/sh\n");
        assert_eq!(Account::for_server(&both).unwrap().uid, 101);
    }

    #[test]
    fn without_an_account_the_error_says_what_to_do() {
        let said = Account::for_server("root:x:0:0:root:/:/bin/sh\n").unwrap_err().to_string();
        assert!(said.contains("`postgres` or `nobody`"), "{said}");
    }
}
