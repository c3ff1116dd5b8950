//! A private PgBouncer in transaction mode in front of a server: each transaction of a client may run on
//! another of its few connections. It ends with the process that started it.

use std::fs::{self, DirBuilder};
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use crate::postgres;

/// Runs "$@" until standard input ends, a pipe that the test holds, and with it the test, however that comes
/// about. Killed, because it has nothing to lose, because some versions wait for their clients when asked to
/// end, and because a shell lets what it runs in the background ignore the signals of the keyboard.
const GUARD: &str = r#"
home=$1
shift
exec 3<&0
"$@" </dev/null >>"$home/log" 2>&1 3<&- &
server=$!
echo "$server"
(
    read -r end <&3
    # One that ended by itself has no process id any more; another process may have it by now.
    [ -e "$home/ended" ] || kill -s KILL "$server"
) &
listener=$!
exec 3<&-
wait "$server"
: >"$home/ended"
wait "$listener"
rm -rf "$home"
"#;

/// Who sets it to 1 has no PgBouncer and knows that what needs one is not tested.
const DO_WITHOUT: &str = "WINDLASS_NO_POOLER";

/// What `cargo xtask provision` fetches, from the root of the workspace.
const PROVISIONED: &str = "target/provision/pgbouncer/pgbouncer";

/// Debian puts it where the paths of users do not lead.
const DEBIAN: &str = "/usr/sbin/pgbouncer";

/// One that is not ready by then never will be.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// Another process may take a port between the look and the start. So many in a row mean something else.
const PORT_ATTEMPTS: u32 = 20;

/// A running PgBouncer. Dropping it stops it.
#[derive(Debug)]
pub struct PgBouncer {
    /// The shell that holds it, and the pipe that holds the shell.
    shell: Child,
    home: PathBuf,
    addr: SocketAddr,
}

/// Whether it is known that there is no PgBouncer here: the environment says so, or the gate could not get it
/// and has said so aloud.
#[must_use]
pub fn is_done_without() -> bool {
    env::var_os(DO_WITHOUT).is_some_and(|value| value == "1")
        || postgres::provision().join("without-pooler").exists()
}

impl PgBouncer {
    /// Starts one that holds at most so many connections to the server, for each database and user. Whoever
    /// comes is the server's user `postgres`.
    pub fn start(server: SocketAddr, connections: usize) -> io::Result<Self> {
        let program = find()?;
        let mut attempts = 1;
        loop {
            match Self::launch(&program, server, connections) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && attempts < PORT_ATTEMPTS => {
                    attempts += 1;
                }
                done => return done,
            }
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What it wrote to its log so far.
    pub fn log(&self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(self.home.join("log"))?).into_owned())
    }

    fn launch(program: &Path, server: SocketAddr, connections: usize) -> io::Result<Self> {
        let addr = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let home = new_home()?;
        let settings = home.join("pgbouncer.ini");
        fs::write(&settings, ini(server, addr, connections))?;
        let mut command = Command::new("sh");
        command.args(["-c", GUARD, "guard"]).arg(&home).arg(program);
        // It does not run as root, but changes to another account by itself.
        if fs::metadata(&home)?.uid() == 0 {
            command.args(["-u", "nobody"]);
        }
        command.arg(&settings).current_dir(&home);
        // A group of its own: the keys that interrupt the test must not end the shell before it has cleaned
        // up.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = command.spawn()?;
        // The guard says the process id, and with that it is ready to clean up.
        if let Some(stdout) = shell.stdout.take() {
            BufReader::new(stdout).read_line(&mut String::new())?;
        }
        let started = Self { shell, home, addr };
        started.wait_until_ready()?;
        Ok(started)
    }

    fn wait_until_ready(&self) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            let ended = self.home.join("ended").exists();
            let log = self.log().unwrap_or_default();
            // Written when it listens.
            if !ended && log.contains("process up") {
                return Ok(());
            }
            if ended || begun.elapsed() > READY_WITHIN {
                let is_taken = log.contains("Address already in use");
                let kind = if is_taken { io::ErrorKind::AddrInUse } else { io::ErrorKind::Other };
                return Err(io::Error::new(kind, format!("PgBouncer did not start:\n{log}")));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        // The end of the pipe is what the guard waits for; it stops PgBouncer and removes the directory.
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// Everything that is not said is as PgBouncer has it by default: start-up parameters that it does not know
/// are refused.
fn ini(server: SocketAddr, addr: SocketAddr, connections: usize) -> String {
    let (host, port) = (server.ip(), server.port());
    format!(
        "[databases]\n\
         * = host={host} port={port} user=postgres\n\
         [pgbouncer]\n\
         listen_addr = {}\n\
         listen_port = {}\n\
         unix_socket_dir =\n\
         auth_type = any\n\
         pool_mode = transaction\n\
         default_pool_size = {connections}\n\
         max_client_conn = 200\n",
        addr.ip(),
        addr.port(),
    )
}

fn new_home() -> io::Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    loop {
        let name = format!("windlass-pgbouncer-{}-{}", process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = env::temp_dir().join(name);
        match DirBuilder::new().mode(0o755).create(&path) {
            // A killed process that had this process id may have left it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => return done.map(|()| path),
        }
    }
}

/// On the path, Debian's, or what was provisioned.
fn find() -> io::Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|directory| directory.join("pgbouncer"));
    // Cargo tells where the package is that it tests; the path known at build time serves when it is started
    // by hand.
    let told = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let known = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let packages: Vec<PathBuf> = told.into_iter().chain([known]).collect();
    let roots = packages.iter().flat_map(|package| package.ancestors());
    let provisioned = roots.map(|root| root.join(PROVISIONED));
    first(on_path.chain([PathBuf::from(DEBIAN)]).chain(provisioned))
}

fn first(mut places: impl Iterator<Item = PathBuf>) -> io::Result<PathBuf> {
    places.find(|program| program.is_file()).ok_or_else(|| {
        let advice = format!(
            "there is no PgBouncer (on PATH, {DEBIAN}, {PROVISIONED}): run `cargo xtask provision --all`, install the \
             Debian package `pgbouncer`, or set {DO_WITHOUT}=1 to leave what needs it untested"
        );
        io::Error::new(io::ErrorKind::NotFound, advice)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn without_a_pooler_the_error_says_what_to_do() {
        let said = first([env::temp_dir()].into_iter()).unwrap_err().to_string();
        for word in ["`cargo xtask provision --all`", "`pgbouncer`", "WINDLASS_NO_POOLER=1"] {
            assert!(said.contains(word), "{word} is missing: {said}");
        }
    }

    /// Starts what the lines do in place of PgBouncer.
    fn launch(name: &str, lines: &str) -> io::Result<PgBouncer> {
        let place = env::temp_dir().join(format!("windlass-{name}-{}", process::id()));
        fs::write(&place, format!("#!/bin/sh\n{lines}\n")).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
        let launched = PgBouncer::launch(&place, (Ipv4Addr::LOCALHOST, 1).into(), 1);
        fs::remove_file(&place).unwrap();
        launched
    }

    #[test]
    fn one_that_does_not_start_shows_its_log() {
        let said = launch("fails", "echo no such thing").map(drop).unwrap_err().to_string();
        assert!(said.contains("did not start") && said.contains("no such thing"), "{said}");
    }

    #[test]
    fn one_that_ignores_signals_ends_with_the_pipe_and_leaves_nothing() {
        let started =
            launch("stays", "trap '' INT QUIT TERM\necho $$ process up\nexec tail -f /dev/null").unwrap();
        let (home, log) = (started.home.clone(), started.log().unwrap());
        let is_running = || {
            let number = log.split_whitespace().next().unwrap();
            Command::new("kill").args(["-0", number]).stderr(Stdio::null()).status().unwrap().success()
        };
        assert!(is_running() && home.exists());
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            drop(started);
            done.send(()).unwrap();
        });
        is_done.recv_timeout(READY_WITHIN).expect("it ends");
        assert!(!is_running() && !home.exists());
    }
}
