//! The private server: started, spoken to, stopped, started again, and gone in the end.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, io, thread};

use windlass_testbed::postgres::{self, Mode, OLDEST, Server};

/// Tells the test program to be the process that is killed.
const WAITS: &str = "WINDLASS_TESTBED_WAITS";
const DATA: &str = "data: ";
const ADDR: &str = "addr: ";

#[test]
fn every_installation_found_starts_and_answers() {
    let found = postgres::installations();
    assert!(!found.is_empty(), "{}", Server::start().unwrap_err());
    for installation in &found {
        let server = Server::start_with(installation).unwrap();
        let said = server.sql("SELECT version()").unwrap();
        assert!(said.starts_with(&format!("PostgreSQL {} ", installation.version)), "{said}");
        println!("{}: {said}", installation.bin.display());
    }
    let mut majors: Vec<u32> = found.iter().map(|it| it.major()).collect();
    assert!(majors.iter().all(|major| *major >= OLDEST), "{majors:?}");
    majors.sort_unstable();
    majors.dedup();
    assert_eq!(majors.len(), found.len(), "one of each major version: {found:?}");
}

#[test]
fn a_stopped_server_comes_back_with_its_data_and_its_address() {
    let server = Server::start().unwrap();
    let url = server.create_database("kept").unwrap();
    server.sql_in("kept", "CREATE TABLE rows AS SELECT 7 AS number").unwrap();
    for mode in [Mode::Fast, Mode::Immediate] {
        server.stop(mode).unwrap();
        assert_eq!(server.pid(), None);
        assert!(server.sql("SELECT 1").is_err(), "{mode:?} did not stop it");
        server.start_again().unwrap();
        assert_eq!(server.url_of("kept"), url);
        assert_eq!(server.sql_in("kept", "SELECT number FROM rows").unwrap(), "7", "{mode:?}");
        let repaired = server.log().unwrap().contains("automatic recovery in progress");
        assert_eq!(repaired, mode == Mode::Immediate, "{}", server.log().unwrap());
    }
}

#[test]
fn settings_are_the_usual_ones_and_those_given() {
    let server =
        Server::builder().setting("work_mem", "5MB").setting("max_connections", "20").start().unwrap();
    for (name, value) in [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("listen_addresses", "127.0.0.1"),
        ("server_encoding", "UTF8"),
        ("work_mem", "5MB"),
        ("max_connections", "20"),
    ] {
        assert_eq!(server.sql(&format!("SHOW {name}")).unwrap(), value, "{name}");
    }
    assert_eq!(postgres::shared().sql("SHOW max_connections").unwrap(), "200");
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let error = Server::builder().setting("no_such_setting", "1").start().unwrap_err();
    assert!(error.to_string().contains("no_such_setting"), "{error}");
}

#[test]
fn a_statement_that_fails_is_an_error_with_the_words_of_the_server() {
    let error = postgres::shared().sql("SELECT 1/0").unwrap_err();
    assert!(error.to_string().contains("division by zero"), "{error}");
}

#[test]
fn backends_are_ended_and_counted() {
    let server = Server::start().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| server.sql("SELECT pg_sleep(600)"));
        let sleeps =
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%(600)' AND wait_event = 'PgSleep'";
        while server.sql(sleeps).unwrap() != "1" {
            assert!(!waiting.is_finished(), "it did not wait: {:?}", waiting.join());
        }
        // The backend of a `psql` that has just ended may be counted, too.
        assert!(server.terminate_backends().unwrap() >= 1);
        let error = waiting.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("terminating connection"), "{error}");
    });
    while server.terminate_backends().unwrap() > 0 {}
}

#[test]
fn a_dropped_server_is_gone_with_its_data() {
    let server = Server::start().unwrap();
    let data = PathBuf::from(server.sql("SHOW data_directory").unwrap());
    let addr = server.addr();
    TcpStream::connect(addr).unwrap();
    drop(server);
    assert!(!data.exists());
    assert_eq!(TcpStream::connect(addr).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

/// The other half of the test below: says where its server is and waits to be killed. Alone it does nothing.
#[test]
fn starts_a_server_and_waits() {
    if env::var_os(WAITS).is_none() {
        return;
    }
    let server = postgres::shared();
    println!("\n{DATA}{}", server.sql("SHOW data_directory").unwrap());
    println!("{ADDR}{}", server.addr());
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_killed_process_leaves_no_server_behind() {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "starts_a_server_and_waits", "--nocapture"])
        .env(WAITS, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut value = |key: &str| lines.find_map(|line| line.strip_prefix(key).map(str::to_owned)).unwrap();
    let data = PathBuf::from(value(DATA));
    let addr: SocketAddr = value(ADDR).parse().unwrap();
    // The server closes this when it ends: that is the signal to wait for. It must have been accepted before,
    // which the answer to "may we encrypt?" shows: a server that is ending waits a minute for a new client's
    // first word.
    let mut connection = TcpStream::connect(addr).unwrap();
    connection.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).unwrap();
    connection.read_exact(&mut [0]).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    // A reset is as good an end as any.
    let _ = connection.read_to_end(&mut Vec::new());
    let deadline = Instant::now() + Duration::from_secs(30);
    while data.exists() {
        assert!(Instant::now() < deadline, "{} is still there", data.display());
        thread::yield_now();
    }
    assert_eq!(TcpStream::connect(addr).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}
