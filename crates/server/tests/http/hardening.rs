//! What every answer says to browsers and proxies, and what a request must say; certificates that change.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::kit::{Answer, DEADLINE, Server, answer, certificates};
use super::support::Place;

/// The answer to a request as it is written here.
fn raw(server: &Server, request: &str) -> Answer {
    let mut stream = server.connect();
    stream.write_all(request.as_bytes()).unwrap();
    answer(&mut BufReader::new(stream))
}

#[test]
fn a_request_names_one_host() {
    let server = Server::start();
    let with = |version: &str, path: &str, hosts: &str| {
        raw(&server, &format!("GET {path} HTTP/{version}\r\n{hosts}connection: close\r\n\r\n"))
    };
    for path in ["/v1/stats", "/health", "/nothing"] {
        for bad in ["", "host: localhost\r\nhost: localhost\r\n", "host: localhost\r\nHOST: evil.example\r\n"]
        {
            with("1.1", path, bad).refused(400, "bad_request");
        }
    }
    with("1.0", "/v1/stats", "").refused(400, "bad_request");
    assert_eq!(with("1.0", "/health", "").status, 200, "probes that speak HTTP/1.0 name none");
    for here in ["localhost", "LOCALHOST", "LocalHost:7070", "127.0.0.1", "[::1]:7070"] {
        assert_eq!(with("1.1", "/v1/stats", &format!("host: {here}\r\n")).status, 200, "{here}");
    }
    with("1.1", "/v1/stats", "host: evil.example\r\n").refused(403, "forbidden");
    let page = "host: LOCALHOST:7070\r\norigin: http://localhost:7070\r\n";
    assert_eq!(with("1.1", "/v1/stats", page).status, 200, "a page of its own");
}

#[test]
fn every_answer_tells_browsers_to_guess_nothing_and_pass_nothing_on() {
    let server = Server::with(&["--allow-origin", "https://ok.example"]);
    let answers = [
        server.ask("GET", "/health", None),
        server.ask("GET", "/metrics", None),
        server.ask("GET", "/openapi.json", None),
        server.ask("GET", "/v1/stats", None),
        server.ask("POST", "/v1/tasks", Some(&json!({ "kind": "x" }))),
        server.ask("GET", "/nothing", None),
        server.ask("PATCH", "/v1/tasks", None),
        server.ask("POST", "/v1/store", Some(&json!({}))),
        server.ask_with("OPTIONS", "/v1/tasks", &[("origin", "https://ok.example")], None),
        server.ask_with("GET", "/v1/stats", &[("origin", "https://evil.example")], None),
        raw(&server, "GET /v1/stats HTTP/1.1\r\nconnection: close\r\n\r\n"),
    ];
    for answer in answers {
        let told = ["x-content-type-options", "referrer-policy"].map(|name| answer.header(name));
        assert_eq!(told, [Some("nosniff"), Some("no-referrer")], "{answer:?}");
    }
}

#[test]
fn a_method_that_a_route_does_not_have_is_told_which_it_has() {
    let server = Server::start();
    for (method, path, allowed) in [
        ("PATCH", "/v1/tasks", "GET,HEAD,POST"),
        ("POST", "/v1/stats", "GET,HEAD"),
        ("PUT", "/health", "GET,HEAD"),
        ("DELETE", "/v1/tasks/batch", "POST"),
        ("GET", "/v1/store", "POST"),
        ("POST", "/openapi.json", "GET,HEAD"),
        ("PATCH", "/v1/workers/x", "DELETE"),
    ] {
        let refused = server.ask(method, path, None);
        refused.refused(405, "method_not_allowed");
        let told = refused.header("allow").unwrap_or_default();
        let mut told: Vec<_> = told.split(',').map(str::trim).collect();
        told.sort_unstable();
        assert_eq!(told.join(","), allowed, "{method} {path}");
    }
    let described = server.get("/openapi.json");
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert!(operation["responses"]["405"].is_object(), "{method} {path}");
        }
    }
}

type Secured = StreamOwned<ClientConnection, TcpStream>;

/// A connection that trusts the authorities in these texts, and the certificate that the server shows.
fn secured(server: &Server, authorities: &[&str]) -> (Secured, CertificateDer<'static>) {
    let mut roots = RootCertStore::empty();
    for text in authorities {
        roots.add(CertificateDer::from_pem_slice(text.as_bytes()).unwrap()).unwrap();
    }
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, server.connect());
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).unwrap();
    }
    let shown = stream.conn.peer_certificates().unwrap()[0].clone().into_owned();
    (stream, shown)
}

/// Asks whether the server lives, and leaves the connection open.
fn lives(stream: &mut Secured) {
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut told = Vec::new();
    while !told.ends_with(b"}") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        told.push(byte[0]);
    }
    assert!(told.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&told));
}

#[test]
fn a_certificate_that_is_renewed_is_used_without_a_restart() {
    let place = Place::new();
    certificates(&place, "localhost");
    let first_authority = place.read("ca.pem");
    let mut server = Server::in_place(place, &["--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
    let (mut open, first) = secured(&server, &[&first_authority]);
    lives(&mut open);
    // One that cannot be used changes nothing, and is told of.
    let key = server.place.read("key.pem");
    server.place.file("key.pem", "no key");
    server.running.until("the new TLS certificate cannot be used");
    assert_eq!(secured(&server, &[&first_authority]).1, first);
    // A renewed one writes over both.
    certificates(&server.place, "localhost");
    assert_ne!(server.place.read("key.pem"), key);
    let authorities = [&*first_authority, &server.place.read("ca.pem")];
    let begun = Instant::now();
    let (mut renewed, second) = loop {
        let (stream, shown) = secured(&server, &authorities);
        if shown != first {
            break (stream, shown);
        }
        assert!(begun.elapsed() < DEADLINE, "it was not used");
    };
    lives(&mut renewed);
    // The connection from before goes on.
    lives(&mut open);
    assert_eq!(secured(&server, &authorities[1..]).1, second, "the first is not shown any more");
}
