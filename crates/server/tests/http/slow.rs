//! Peers that dawdle: they are given up, and nobody else notices.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::kit::{Server, certificates};
use super::support::Place;

/// Reads until the server hangs up.
fn is_hung_up(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut rest);
    rest
}

#[test]
fn two_hundred_slow_connections_hinder_nobody() {
    let server = Server::with(&["--header-timeout", "1s", "--body-timeout", "1s", "--max-requests", "8"]);
    let beginnings: [&[u8]; 4] = [
        b"",
        b"GET /v1/stats HTT",
        b"POST /v1/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n",
        b"POST /v1/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{\"kind\"",
    ];
    let mut slow: Vec<_> = (0..200)
        .map(|n| {
            let mut stream = server.connect();
            stream.write_all(beginnings[n % beginnings.len()]).unwrap();
            stream
        })
        .collect();
    let id = server.submit(&json!({ "kind": "x" }));
    assert_eq!(server.task(&id)["state"], "pending");
    for (n, stream) in slow.iter_mut().enumerate() {
        let said = String::from_utf8_lossy(&is_hung_up(stream)).into_owned();
        let is_body = n % beginnings.len() == 3;
        assert_eq!(said.starts_with("HTTP/1.1 408"), is_body, "{n}: {said:?}");
    }
    assert_eq!(server.get("/v1/stats")["tasks"], 1);
}

/// By TLS a peer can be silent in more places: before the handshake, in its middle, and after it.
#[test]
fn slow_connections_by_tls_are_given_up() {
    let place = Place::new();
    certificates(&place, "localhost");
    let authority = CertificateDer::from_pem_file(place.path().join("ca.pem")).unwrap();
    let arguments =
        ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "--header-timeout", "1s", "--body-timeout", "1s"];
    let server = Server::in_place(place, &[&arguments[..], &["--max-connections", "40"]].concat());
    let mut roots = RootCertStore::empty();
    roots.add(authority).unwrap();
    let provider = std::sync::Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let config = std::sync::Arc::new(config);
    let connect = || {
        let connection = ClientConnection::new(config.clone(), "localhost".try_into().unwrap()).unwrap();
        let mut stream = StreamOwned::new(connection, server.connect());
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
        assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
        stream
    };
    let begun: [&[u8]; 4] = [
        b"",
        b"GET /health HTT",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /v1/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{",
    ];
    // More than there are places for: each must be given back.
    for _ in 0..3 {
        let mut silent: Vec<_> = (0..15).map(|_| server.connect()).collect();
        // The beginning of a handshake.
        silent.iter_mut().skip(7).for_each(|stream| stream.write_all(&[22, 3, 1, 0, 200, 1]).unwrap());
        let mut slow: Vec<_> = (0..20)
            .map(|n| {
                let mut stream = connect();
                stream.write_all(begun[n % begun.len()]).unwrap();
                stream
            })
            .collect();
        let mut asked = connect();
        asked.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut said = Vec::new();
        let _ = asked.read_to_end(&mut said);
        assert!(said.starts_with(b"HTTP/1.1 200 OK"), "others are served meanwhile");
        silent.iter_mut().for_each(|stream| drop(is_hung_up(stream)));
        // It has been hung up on when there is nothing more to be read.
        slow.iter_mut().for_each(|stream| drop(stream.read_to_end(&mut Vec::new())));
    }
}

#[test]
fn a_connection_that_is_done_with_is_given_up() {
    let server = Server::with(&["--header-timeout", "1s"]);
    let mut stream = server.connect();
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let said = String::from_utf8(is_hung_up(&mut stream)).unwrap();
    assert!(said.starts_with("HTTP/1.1 200 OK"), "answered, and then hung up: {said}");
}

#[test]
fn who_does_not_read_is_given_up() {
    let server = Server::with(&["--body-timeout", "1s"]);
    let payload = "x".repeat(1_000_000);
    let id = server.submit(&json!({ "kind": "x", "payload": payload }));
    let mut stream = server.connect();
    let asked = format!("GET /v1/tasks/{id} HTTP/1.1\r\nhost: x\r\n\r\n");
    // More than all buffers in between can hold.
    for _ in 0..64 {
        stream.write_all(asked.as_bytes()).unwrap();
    }
    let gone = "windlass_http_requests_total";
    assert!(server.ask("GET", "/metrics", None).body.contains(gone), "others are served meanwhile");
    server.running_connection_ends(&mut stream);
}

#[test]
fn more_connections_than_may_be_are_told_so() {
    let server = Server::with(&["--max-connections", "3"]);
    let mut held: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for stream in &mut held {
        stream.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        let mut first = [0; 15];
        stream.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"HTTP/1.1 200 OK");
    }
    let said = String::from_utf8(is_hung_up(&mut server.connect())).unwrap();
    assert!(said.starts_with("HTTP/1.1 503 ") && said.contains("retry-after: 1"), "{said}");
    drop(held);
    // A place is free as soon as the server has noticed.
    while server.connect_and_ask().is_none() {
        std::thread::yield_now();
    }
}

#[test]
fn heads_that_are_too_large_are_refused() {
    let server = Server::start();
    let mut stream = server.connect();
    let _ = stream.write_all(
        format!("GET /health HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(200_000)).as_bytes(),
    );
    let said = String::from_utf8_lossy(&is_hung_up(&mut stream)).into_owned();
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{said}");
    assert_eq!(server.ask("GET", "/health", None).status, 200);
}

impl Server {
    /// Waits until the server has hung up on one who does not read: writing to it fails then.
    fn running_connection_ends(&self, stream: &mut TcpStream) {
        loop {
            if stream.write_all(b"\r\n").is_err() {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Whether there is a place for a connection.
    fn connect_and_ask(&self) -> Option<()> {
        let mut stream = self.connect();
        stream.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").ok()?;
        let mut said = String::new();
        stream.read_to_string(&mut said).ok()?;
        said.starts_with("HTTP/1.1 200").then_some(())
    }
}
