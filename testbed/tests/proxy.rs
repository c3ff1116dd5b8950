//! The proxy: what each of its switches does to connections, and the answer to a commit that never comes.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use windlass_testbed::postgres::{self, Server};
use windlass_testbed::proxy::Proxy;

/// How long to look for something that must not come. Only what fails to be held back would be seen in it.
const A_WHILE: Duration = Duration::from_millis(100);

/// Nothing that is waited for here takes that long; a test that waits in vain ends by it.
const FOREVER: Duration = Duration::from_secs(30);

/// A server that sends back what it is sent, for as long as the test runs.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            thread::spawn(move || {
                let mut from = connection.try_clone().unwrap();
                // How it ends is seen by the client; an error is no news here.
                let _ = std::io::copy(&mut from, &mut connection);
            });
        }
    });
    addr
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.addr()).unwrap();
    stream.set_read_timeout(Some(FOREVER)).unwrap();
    stream
}

fn send(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
}

fn receive(stream: &mut TcpStream, length: usize) -> String {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// A connection through which something has already come back.
fn conversation(proxy: &Proxy) -> TcpStream {
    let mut stream = connect(proxy);
    send(&mut stream, "hello, is anybody there?");
    assert_eq!(receive(&mut stream, 24), "hello, is anybody there?");
    stream
}

#[track_caller]
fn is_reset(stream: &mut TcpStream) {
    let error = stream.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn an_orderly_end_goes_through() {
    let proxy = Proxy::start(echo()).unwrap();
    let mut stream = conversation(&proxy);
    send(&mut stream, "bye");
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "bye");
}

#[test]
fn a_cut_resets_all_connections_and_no_later_one() {
    let proxy = Proxy::start(echo()).unwrap();
    let mut open = [conversation(&proxy), conversation(&proxy)];
    assert_eq!(proxy.connections(), 2);
    assert_eq!(proxy.cut(), 2);
    assert_eq!(proxy.connections(), 0);
    for stream in &mut open {
        is_reset(stream);
    }
    conversation(&proxy);
    assert_eq!(Proxy::start(echo()).unwrap().cut(), 0);
}

#[test]
fn new_connections_are_refused_and_old_ones_stay() {
    let proxy = Proxy::start(echo()).unwrap();
    let mut old = conversation(&proxy);
    proxy.refuse(true);
    // The system accepts before the proxy does, so the refusal is seen at the first use or in connecting.
    let refused = TcpStream::connect(proxy.addr()).and_then(|mut stream| {
        stream.set_read_timeout(Some(FOREVER))?;
        stream.read(&mut [0; 1])
    });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionReset);
    send(&mut old, "still here");
    assert_eq!(receive(&mut old, 10), "still here");
    proxy.refuse(false);
    conversation(&proxy);
}

#[test]
fn stalled_bytes_arrive_late_and_complete() {
    let proxy = Proxy::start(echo()).unwrap();
    let mut old = conversation(&proxy);
    proxy.stall(true);
    let mut new = connect(&proxy);
    for stream in [&mut old, &mut new] {
        send(stream, "patience");
        stream.set_read_timeout(Some(A_WHILE)).unwrap();
        let kind = stream.read(&mut [0; 1]).unwrap_err().kind();
        assert!(matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{kind}");
        stream.set_read_timeout(Some(FOREVER)).unwrap();
    }
    proxy.stall(false);
    for stream in [&mut old, &mut new] {
        assert_eq!(receive(stream, 8), "patience");
    }
}

#[test]
fn a_stalled_connection_can_be_cut() {
    let proxy = Proxy::start(echo()).unwrap();
    let mut stream = conversation(&proxy);
    proxy.stall(true);
    send(&mut stream, "lost");
    assert_eq!(proxy.cut(), 1);
    is_reset(&mut stream);
}

#[test]
fn a_dropped_proxy_ends_its_connections() {
    let proxy = Proxy::start(echo()).unwrap();
    let mut stream = conversation(&proxy);
    drop(proxy);
    // Its port is not asked: another test may have it by now.
    let end = stream.read(&mut [0; 1]).map_err(|error| error.kind());
    assert!(matches!(end, Ok(0) | Err(ErrorKind::ConnectionReset)), "{end:?}");
}

/// A table in a database of its own, and a proxy in front of it.
struct Bank {
    server: &'static Server,
    proxy: Proxy,
    database: &'static str,
}

impl Bank {
    fn open(database: &'static str) -> Self {
        let server = postgres::shared();
        server.create_database(database).unwrap();
        server.sql_in(database, "CREATE TABLE rows (number int)").unwrap();
        Self { server, proxy: Proxy::start(server.addr()).unwrap(), database }
    }

    /// What `psql` says when it runs the statements through the proxy: `Err` if the connection was lost.
    fn run(&self, statements: &str) -> Result<(), String> {
        let url = format!("postgres://postgres@{}/{}", self.proxy.addr(), self.database);
        let output = self.server.psql(&url, statements).unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(said) }
    }

    #[track_caller]
    fn loses_connection(&self, statements: &str) {
        let said = self.run(statements).unwrap_err();
        assert!(said.contains("server closed the connection") || said.contains("reset by peer"), "{said}");
    }

    fn rows(&self) -> String {
        self.server
            .sql_in(self.database, "SELECT string_agg(number::text, ' ' ORDER BY number) FROM rows")
            .unwrap()
    }
}

#[test]
fn a_commit_is_carried_out_and_its_answer_lost() {
    let bank = Bank::open("answers");
    bank.run("BEGIN; INSERT INTO rows VALUES (1); COMMIT").unwrap();
    bank.proxy.drop_answer_after_commit(2);
    bank.loses_connection("BEGIN; INSERT INTO rows VALUES (2); COMMIT");
    assert_eq!(bank.proxy.answers_dropped(), 1);
    bank.loses_connection("BEGIN; INSERT INTO rows VALUES (3); COMMIT");
    assert_eq!(bank.proxy.answers_dropped(), 2);
    bank.run("BEGIN; INSERT INTO rows VALUES (4); COMMIT").unwrap();
    assert_eq!(bank.rows(), "1 2 3 4");
    assert_eq!(bank.proxy.answers_dropped(), 2);
}

#[test]
fn a_transaction_that_is_rolled_back_is_no_commit() {
    let bank = Bank::open("rollbacks");
    bank.proxy.drop_answer_after_commit(1);
    bank.run("BEGIN; INSERT INTO rows VALUES (1); ROLLBACK").unwrap();
    let said = bank.run("BEGIN; SELECT 1/0; COMMIT").unwrap_err();
    assert!(said.contains("division by zero"), "{said}");
    assert_eq!(bank.proxy.answers_dropped(), 0);
    bank.loses_connection("BEGIN; INSERT INTO rows VALUES (2); COMMIT");
    assert_eq!(bank.rows(), "2");
}
