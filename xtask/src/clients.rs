//! Gets what the tests of the clients need: the Python packages that check types and requests, and the
//! TypeScript client, built.
//!
//! Nothing is installed: the packages are below `target/provision/python`, where the tests look for them, and
//! what npm fetches stays beside the client.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::provision::{about, lock, make_anew, output, python};

/// The packages, each with its version.
const PACKAGES: &str = include_str!("../python.txt");

/// Makes sure that everything is there. Returns a remark for the summary.
pub(crate) fn run(root: &Path) -> Result<String, String> {
    let packages = packages(&root.join("target/provision"))?;
    let node = typescript(&root.join("clients/typescript"))?;
    Ok(format!("{packages}; Node {node}"))
}

/// Fetches the Python packages, unless the very same were fetched before.
fn packages(provision: &Path) -> Result<String, String> {
    let python = python("Python packages that the tests use are fetched")?;
    let version = output(Command::new(python).arg("--version"))?;
    let (directory, wanted) = (provision.join("python"), format!("{version}\n{PACKAGES}"));
    let _lock = lock(provision)?;
    let list = directory.join("packages.txt");
    if !fs::read_to_string(&list).is_ok_and(|fetched| fetched == wanted) {
        let unfinished = make_anew(provision)?;
        let requirements = unfinished.join("packages.txt");
        fs::write(&requirements, PACKAGES).map_err(about(&requirements))?;
        println!("      fetching Python packages to check types and requests");
        let mut install = Command::new(python);
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        install.args(["--no-warn-conflicts", "--requirement"]).arg(&requirements);
        output(install.arg("--target").arg(&unfinished))?;
        fs::write(&requirements, &wanted).map_err(about(&requirements))?;
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(about(&directory))?;
        }
        fs::rename(&unfinished, &directory).map_err(about(&directory))?;
    }
    Ok(version)
}

/// Fetches what the TypeScript client is built with, and builds it.
fn typescript(client: &Path) -> Result<String, String> {
    let advice = |error: String| format!("{error}; the TypeScript client needs Node 20 or later, with npm");
    let version = output(Command::new("node").arg("--version")).map_err(advice)?;
    let npm = |line: &[&str]| output(Command::new("npm").args(line).current_dir(client)).map_err(advice);
    let changed = |path: &str| fs::metadata(client.join(path)).and_then(|it| it.modified()).ok();
    // What npm has installed it writes down there.
    if changed("node_modules/.package-lock.json") < changed("package-lock.json") {
        println!("      fetching what the TypeScript client is built with");
        npm(&["ci", "--no-audit", "--no-fund"])?;
    }
    npm(&["run", "build:test"])?;
    Ok(version)
}
