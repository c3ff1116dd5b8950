//! Data directories that `initdb` made once and every server copies, because it takes a second or two each
//! time.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use super::find::Installation;
use super::home::{Home, copy_plainly};
use super::{at, provision};

/// The template for this version, made now if it is not there yet.
pub(super) fn template(installation: &Installation) -> io::Result<PathBuf> {
    let made = provision().join(format!("data-{}", installation.version));
    if made.exists() {
        return Ok(made);
    }
    fs::create_dir_all(provision()).map_err(at(provision()))?;
    // Several test programs may come here at once. The lock ends with the process that holds it, however it
    // ends.
    let lock_path = made.with_added_extension("lock");
    let lock = File::create(&lock_path).map_err(at(&lock_path))?;
    lock.lock().map_err(at(&lock_path))?;
    if !made.exists() {
        let unfinished = made.with_added_extension("unfinished");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).map_err(at(&unfinished))?;
        }
        let home = Home::new()?;
        initialise(&home, installation)?;
        copy_plainly(home.data(), &unfinished)?;
        fs::rename(&unfinished, &made).map_err(at(&made))?;
    }
    Ok(made)
}

fn initialise(home: &Home, installation: &Installation) -> io::Result<()> {
    let mut command = home.command(home.bin(installation)?.join("initdb"));
    command.args(["--username=postgres", "--auth=trust", "--locale=C", "--encoding=UTF8", "--no-sync"]);
    let output = command.arg("--pgdata").arg(home.data()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("initdb ended with {}: {}", output.status, said.trim())))
}
