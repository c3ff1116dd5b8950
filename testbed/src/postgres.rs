//! A private PostgreSQL server, started in a fraction of a second and gone with the process that started it.
//!
//! The server listens on 127.0.0.1 only, trusts everyone there, and is as durable as a fresh installation:
//! nothing is switched off that a measurement would miss.
//!
//! ```no_run
//! use windlass_testbed::postgres;
//!
//! let server = postgres::shared();
//! let url = server.create_database("mine")?;
//! assert_eq!(server.sql("SELECT 1 + 1")?, "2");
//! # Ok::<(), std::io::Error>(())
//! ```

mod find;
mod home;
mod template;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

pub use find::{Installation, OLDEST};
use home::{Home, clean_command};

const GUARD: &str = include_str!("postgres/guard.sh");

/// A server that is not ready by then never will be.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A little less than what Linux lets one argument of a program have. What is longer is sent, and not in one
/// transaction.
const LONGEST_ARGUMENT: usize = 128 * 1024 - 1;

/// Below the range from which systems take ports for outgoing connections, so that a server that is stopped
/// for a while finds its port free.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Another process may take a port between the look and the start. So many in a row mean something else.
const PORT_ATTEMPTS: u32 = 20;

/// Who the server is for, as far as it cares.
const SETTINGS: [(&str, &str); 3] =
    [("listen_addresses", "127.0.0.1"), ("unix_socket_directories", ""), ("max_connections", "200")];

/// How a server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Connections are closed and everything is written: the next start has nothing to repair.
    Fast,
    /// At once, as in a power cut: the next start recovers from the log.
    Immediate,
}

/// A running server. Dropping it stops it and removes its data.
#[derive(Debug)]
pub struct Server {
    installation: Installation,
    /// Where the account of the server finds its programs.
    bin: PathBuf,
    settings: Vec<(String, String)>,
    port: u16,
    /// `None` while it is stopped.
    guard: Mutex<Option<Guard>>,
    // After the guard: fields are dropped in this order, and a directory is removed when nobody writes to it.
    home: Home,
}

/// The shell that holds the server, and the pipe that holds the shell.
#[derive(Debug)]
struct Guard {
    shell: Child,
    server: u32,
}

/// What to start, where it is not the usual.
#[derive(Debug, Default)]
pub struct Builder {
    installation: Option<Installation>,
    settings: Vec<(String, String)>,
}

/// Every PostgreSQL of this machine that tests can use, one of each major version, the usual one first. Empty
/// if there is none or the environment names one of no use; [`Server::start`] then says what to do.
#[must_use]
pub fn installations() -> Vec<Installation> {
    find::find(provision()).unwrap_or_default()
}

/// The one server of this process, started by whoever asks first. It ends with the process.
///
/// # Panics
///
/// If it cannot be started; the message says what to do.
#[expect(
    clippy::panic,
    reason = "a test that gets no server has failed; there is nothing else to do about it"
)]
pub fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| Server::start().unwrap_or_else(|error| panic!("no PostgreSQL: {error}")))
}

impl Builder {
    /// Adds a setting of the server, as in `postgresql.conf`. The last of several values counts.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Chooses the installation instead of the first one found.
    #[must_use]
    pub fn installation(mut self, installation: &Installation) -> Self {
        self.installation = Some(installation.clone());
        self
    }

    /// Starts the server and waits until it accepts connections.
    pub fn start(self) -> io::Result<Server> {
        let installation = match self.installation {
            Some(chosen) => chosen,
            None => find::find(provision())?
                .into_iter()
                .next()
                .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, find::advice()))?,
        };
        let template = template::template(&installation)?;
        let home = Home::new()?;
        home.copy_in(&template, home.data())?;
        let bin = home.bin(&installation)?;
        let settings = self.settings;
        let mut server = Server { installation, bin, settings, port: 0, guard: Mutex::new(None), home };
        server.start_on_free_port()?;
        Ok(server)
    }
}

impl Server {
    /// Starts a server of the first installation found, with the usual settings.
    pub fn start() -> io::Result<Self> {
        Self::builder().start()
    }

    /// Starts a server of this installation, with the usual settings.
    pub fn start_with(installation: &Installation) -> io::Result<Self> {
        Self::builder().installation(installation).start()
    }

    /// Starts a server with more said about it.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// `postgres://postgres@127.0.0.1:PORT/postgres`
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// The same for another database. Its name goes in as it is.
    #[must_use]
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@{}/{database}", self.addr())
    }

    /// Where the server listens, for as long as it exists: another start does not change it.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// As the server says it: `15.14`, `18beta1`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.installation.version
    }

    /// What the server wrote to its log so far.
    pub fn log(&self) -> io::Result<String> {
        let path = self.home.path().join("log");
        Ok(String::from_utf8_lossy(&fs::read(&path).map_err(at(&path))?).into_owned())
    }

    /// The process id of the server, for who wants to send it a signal; `None` while it is stopped.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.guard().as_ref().map(|guard| guard.server)
    }

    /// Runs statements in the database `postgres` with `psql` and returns what it printed: a line for each
    /// row, `|` between columns.
    pub fn sql(&self, statements: &str) -> io::Result<String> {
        self.sql_in("postgres", statements)
    }

    /// The same in another database.
    pub fn sql_in(&self, database: &str, statements: &str) -> io::Result<String> {
        let output = self.psql(&self.url_of(database), statements)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("psql ended with {}: {}", output.status, said.trim())))
    }

    /// Runs `psql` of this installation at any address, such as that of a proxy, and returns all that came of
    /// it.
    pub fn psql(&self, url: &str, statements: &str) -> io::Result<Output> {
        let program = self.installation.bin.join("psql");
        let mut command = clean_command(&program);
        command.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", url]);
        if statements.len() < LONGEST_ARGUMENT {
            command.args(["-c", statements]).stdin(Stdio::null());
            return command.output().map_err(at(&program));
        }
        command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = command.spawn().map_err(at(&program))?;
        let input = running.stdin.take();
        thread::scope(|scope| {
            // One that ends early says why.
            scope.spawn(move || input.map(|mut input| input.write_all(statements.as_bytes())));
            running.wait_with_output().map_err(at(&program))
        })
    }

    /// Makes an empty database and returns its address.
    pub fn create_database(&self, name: &str) -> io::Result<String> {
        self.sql(&format!("CREATE DATABASE \"{}\"", name.replace('"', "\"\"")))?;
        Ok(self.url_of(name))
    }

    /// Ends every connection of a client but the one that asks for it, and says how many there were.
    pub fn terminate_backends(&self) -> io::Result<usize> {
        let ended = self.sql(
            "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
        )?;
        ended.parse().map_err(|error| io::Error::other(format!("{ended:?} is no number: {error}")))
    }

    /// Stops the server and keeps its data. Does nothing if it is stopped.
    pub fn stop(&self, mode: Mode) -> io::Result<()> {
        let Some(mut guard) = self.guard().take() else { return Ok(()) };
        let signal = match mode {
            Mode::Fast => "INT\n",
            Mode::Immediate => "QUIT\n",
        };
        // The pipe stays open until the shell has ended: its end would mean that the data are no longer
        // wanted.
        let mut pipe = guard.shell.stdin.take();
        if let Some(pipe) = &mut pipe {
            pipe.write_all(signal.as_bytes())?;
        }
        guard.shell.wait().map(drop)
    }

    /// Starts the server again on its data and its port. Does nothing if it is running.
    pub fn start_again(&self) -> io::Result<()> {
        let mut guard = self.guard();
        if guard.is_none() {
            *guard = Some(self.launch()?);
        }
        Ok(())
    }

    fn guard(&self) -> MutexGuard<'_, Option<Guard>> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_on_free_port(&mut self) -> io::Result<()> {
        let mut attempts = 1;
        loop {
            self.port = free_port()?;
            match self.launch() {
                Ok(guard) => {
                    *self.guard() = Some(guard);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && attempts < PORT_ATTEMPTS => {
                    attempts += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// One start, up to the moment at which connections are accepted.
    fn launch(&self) -> io::Result<Guard> {
        let home = self.home.path();
        for left_over in ["ended", "log"] {
            match fs::remove_file(home.join(left_over)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let mut command = self.home.command("sh");
        command.args(["-c", GUARD, "guard"]).arg(home).arg(self.bin.join("postgres"));
        command.arg("-D").arg(self.home.data()).args(["-p", &self.port.to_string()]);
        let settings =
            SETTINGS.into_iter().chain(self.settings.iter().map(|(name, value)| (&**name, &**value)));
        for (name, value) in settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        // A group of its own: the keys that interrupt the test must not end the shell before it has cleaned
        // up.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = command.spawn().map_err(at(Path::new("sh")))?;
        let mut line = String::new();
        if let Some(stdout) = shell.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let server =
            line.trim().parse().map_err(|_| io::Error::other("the guard of the server did not start"))?;
        let mut guard = Guard { shell, server };
        match self.wait_until_ready(server) {
            Ok(()) => Ok(guard),
            Err(error) => {
                // With a signal asked for, the guard leaves the directory, which the next attempt needs.
                if let Some(pipe) = &mut guard.shell.stdin {
                    pipe.write_all(b"QUIT\n")?;
                }
                guard.shell.wait()?;
                Err(error)
            }
        }
    }

    /// The server itself writes down when it is ready, which is what `pg_ctl` waits for, too.
    fn wait_until_ready(&self, server: u32) -> io::Result<()> {
        let home = self.home.path();
        let begun = Instant::now();
        loop {
            let status = fs::read_to_string(self.home.data().join("postmaster.pid")).unwrap_or_default();
            let lines: Vec<&str> = status.lines().map(str::trim).collect();
            if lines.first() == Some(&&*server.to_string()) && lines.get(7) == Some(&"ready") {
                return Ok(());
            }
            let ended = home.join("ended").exists();
            if ended || begun.elapsed() > READY_WITHIN {
                let log = self.log()?;
                let kind = if log.contains("could not create any TCP/IP sockets") {
                    io::ErrorKind::AddrInUse
                } else {
                    io::ErrorKind::Other
                };
                let what = if ended { "did not start" } else { "is not ready after a minute" };
                return Err(io::Error::new(kind, format!("the PostgreSQL server {what}:\n{log}")));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The end of the pipe is what the guard waits for. A guard that has ended already is fine as well.
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// Where `cargo xtask provision` puts what the system does not have, and where templates are kept. It is the
/// same for all target directories, so that nothing is fetched twice.
pub(crate) fn provision() -> &'static Path {
    static PROVISION: OnceLock<PathBuf> = OnceLock::new();
    PROVISION.get_or_init(|| {
        // Cargo tells where the package is that it tests, any of this workspace. The path known at build time
        // serves when a program is started by hand; it may be an old one, since cargo builds nothing anew in
        // a moved directory.
        let known = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let told = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let root = told.iter().chain([&known]).flat_map(|package| package.ancestors()).find(is_root);
        root.unwrap_or(&known).join("target/provision")
    })
}

fn is_root(directory: &&Path) -> bool {
    directory.join("testbed/src/postgres/guard.sh").exists()
}

fn free_port() -> io::Result<u16> {
    let random = RandomState::new().build_hasher().finish();
    let count = u64::from(PORTS.end - PORTS.start);
    let offset = u16::try_from(random % count).unwrap_or(0);
    let candidates = (PORTS.start + offset..PORTS.end).chain(PORTS.start..PORTS.start + offset);
    let mut refused = io::Error::other("there are no ports to try");
    for port in candidates {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(port),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// Errors of the file system do not say which file they are about.
fn at(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
