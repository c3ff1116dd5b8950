//! Finds out which test programs there are, and where and with which environment cargo runs each.
//!
//! Cargo can be told to start another program, a runner, instead of each test program. The runner gets the
//! directory and the environment that the test program would get, and the program as its argument. Here the
//! runner is this program again, as `xtask record FILE`: it writes all that down and runs nothing. So a test
//! cannot tell whether it was started by cargo or by [`crate::suite`].

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo;

/// A test program as cargo would run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// The package and the program in it: `windlass/kill`.
    pub(crate) name: String,
    path: PathBuf,
    directory: PathBuf,
    variables: Vec<(String, String)>,
}

impl Program {
    /// The program with the directory and environment that cargo gives it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        cargo::forget_package(&mut command);
        command.current_dir(&self.directory).envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// All test programs, in cargo's order, which must have been built.
pub(crate) fn programs(root: &Path, test: &[&str]) -> Result<Vec<Program>, String> {
    let about = |error: std::io::Error| format!("test programs could not be listed: {error}");
    let recorder = env::current_exe().map_err(about)?;
    let list = root.join(format!("target/test-programs-{}", std::process::id()));
    create_private(&list).map_err(about)?;
    let runner = format!("target.{}.runner=[{recorder:?}, \"record\", {list:?}]", host(root)?);
    let line = [test, &["--quiet", "--lib", "--bins", "--tests", "--config", &runner]].concat();
    let recorded = cargo::run(root, &line, &[]).and_then(|()| fs::read_to_string(&list).map_err(about));
    let _ = fs::remove_file(&list);
    let programs = parse(&recorded?)?;
    if programs.is_empty() {
        return Err("cargo started no test program through the runner; is `build.target` set in a configuration file?".into());
    }
    Ok(programs)
}

/// An empty file that nobody else can read: there may be passwords in the environment.
fn create_private(path: &Path) -> std::io::Result<File> {
    let _ = fs::remove_file(path);
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// What cargo calls this machine: `x86_64-unknown-linux-gnu`.
fn host(root: &Path) -> Result<String, String> {
    let said = cargo::output(root, &["-vV"])?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| format!("`cargo -vV` does not name the host:\n{said}"))
}

/// The runner: `xtask record FILE PROGRAM ARGUMENTS…`. It appends the program to the file.
pub(crate) fn record(list: &str, program: &str) -> Result<(), String> {
    let about = |error: std::io::Error| format!("{list}: {error}");
    let directory = env::current_dir().map_err(about)?;
    // A variable that is not text comes from outside, and so is inherited anyway.
    let variables: Vec<(String, String)> = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let entry = written(&directory.to_string_lossy(), program, &variables);
    let mut list = File::options().append(true).open(list).map_err(about)?;
    list.write_all(entry.as_bytes()).map_err(about)
}

/// Directory, program, how many variables, the variables; each followed by a zero byte, which none of them
/// can contain.
fn written(directory: &str, program: &str, variables: &[(String, String)]) -> String {
    let mut entry = format!("{directory}\0{program}\0{}\0", variables.len());
    for (name, value) in variables {
        entry += &format!("{name}={value}\0");
    }
    entry
}

fn parse(list: &str) -> Result<Vec<Program>, String> {
    let mut fields = list.split_terminator('\0');
    let mut programs = Vec::new();
    while let Some(directory) = fields.next() {
        let program = (|| {
            let path = fields.next()?;
            let count: usize = fields.next()?.parse().ok()?;
            let pair = |field: &str| {
                // On some systems a name begins with the sign.
                let (name, value) = field.get(1..)?.split_once('=')?;
                Some((format!("{}{name}", field.get(..1)?), value.to_owned()))
            };
            let variables = (0..count).map(|_| pair(fields.next()?)).collect::<Option<Vec<_>>>()?;
            let package = variables.iter().find(|(name, _)| name == "CARGO_PKG_NAME")?.1.clone();
            let path = PathBuf::from(path);
            let name = format!("{package}/{}", without_hash(path.file_stem()?.to_str()?));
            Some(Program { name, path, directory: directory.into(), variables })
        })();
        programs.push(program.ok_or("the list of test programs is damaged")?);
    }
    Ok(programs)
}

/// `kill-0b922ad697b0febb` is `kill`.
fn without_hash(file: &str) -> &str {
    match file.rsplit_once('-') {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_is_recorded_is_read_back() {
        let some = pairs(&[("CARGO_PKG_NAME", "windlass"), ("EMPTY", ""), ("LINES", "a=b\nc")]);
        let other = pairs(&[("CARGO_PKG_NAME", "windlass-store")]);
        let list = written("/a/engine", "/a/target/debug/deps/kill-0b922ad697b0febb", &some)
            + &written("/a/store", "/a/target/debug/deps/windlass_store-0b922ad697b0febb", &other);
        let programs = parse(&list).unwrap();
        let names: Vec<_> = programs.iter().map(|program| &*program.name).collect();
        assert_eq!(names, ["windlass/kill", "windlass-store/windlass_store"]);
        assert_eq!(programs[0].variables, some);
        assert_eq!(programs[0].directory, Path::new("/a/engine"));
    }

    #[test]
    fn half_a_list_is_an_error() {
        let whole = written("/a", "/b", &pairs(&[("CARGO_PKG_NAME", "x"), ("B", "c")]));
        assert_eq!(parse(&whole).unwrap().len(), 1);
        assert!(parse(whole.strip_suffix("B=c\0").unwrap()).is_err());
        assert!(parse(&written("/a", "/b", &[])).is_err(), "a package without a name");
        assert_eq!(parse(""), Ok(Vec::new()));
    }

    #[test]
    fn a_name_is_that_of_the_file_in_tests() {
        assert_eq!(without_hash("postgres_plans-0b922ad697b0febb"), "postgres_plans");
        assert_eq!(without_hash("no-hash"), "no-hash");
    }

    /// This test is itself run through the list, and sees what cargo gives to tests.
    #[test]
    fn a_program_has_the_directory_and_environment_of_cargo() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(env::current_dir().unwrap(), package);
        assert_eq!(env::var_os("CARGO_MANIFEST_DIR").as_deref(), Some(package.as_os_str()));
        assert_eq!(env::var("CARGO_PKG_NAME").as_deref(), Ok("xtask"));
        assert!(env::var_os("CARGO").is_some());
    }
}
