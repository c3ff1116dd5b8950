//! Bodies: nobody's is read before it is known who sends it, and none that is too large.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use super::kit::{Answer, Server, head};

/// Sooner than a body that does not come is given up.
const PROMPTLY: Duration = Duration::from_secs(20);

/// Sends a head, and as much of a body as is said; the answer must come although the rest does not.
fn begun(server: &Server, method: &str, path: &str, length: &str, body: &[u8]) -> (Answer, TcpStream) {
    let (mut stream, sent) = (server.connect(), Instant::now());
    let head_of = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{length}\r\n\r\n"
    );
    stream.write_all(&[head_of.as_bytes(), body].concat()).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (status, headers) = head(&mut reader);
    let length =
        headers.iter().find(|(name, _)| name == "content-length").map(|(_, value)| value.parse().unwrap());
    let mut text = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut text).unwrap();
    assert!(sent.elapsed() < PROMPTLY, "{path} waited for the body");
    (Answer { status, headers, body: String::from_utf8(text).unwrap() }, stream)
}

#[test]
fn what_anybody_may_ask_reads_no_body() {
    let server = Server::with(&["--body-timeout", "60s"]);
    let chunk = |bytes: usize| [format!("{bytes:x}\r\n").as_bytes(), &vec![b'x'; bytes], b"\r\n"].concat();
    let mut held = Vec::new();
    for (method, path, status) in [
        ("GET", "/health", 200),
        ("GET", "/ready", 200),
        ("GET", "/openapi.json", 200),
        ("POST", "/nowhere", 404),
        ("PUT", "/health", 405),
    ] {
        for length in ["content-length: 16000000", "transfer-encoding: chunked"] {
            let body = if length.starts_with('t') { chunk(100_000) } else { vec![b'x'; 100_000] };
            let (answer, stream) = begun(&server, method, path, length, &body);
            assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
            held.push(stream);
        }
    }
    server.submit(&json!({ "kind": "x" }));
}

#[test]
fn one_that_is_announced_as_too_large_is_refused_before_it_comes() {
    let server = Server::with(&["--max-body-bytes", "10000", "--body-timeout", "60s"]);
    let (answer, _) = begun(&server, "POST", "/v1/tasks", "content-length: 10001", b"{");
    answer.refused(413, "too_large");
    let (answer, _) = begun(&server, "POST", "/v1/tasks", "content-length: 99999999999", b"");
    answer.refused(413, "too_large");
    // All of it may come: who sends it still hears why it was refused.
    let large = json!({ "kind": "x", "payload": "x".repeat(9_000_000) });
    server.ask("POST", "/v1/tasks", Some(&large)).refused(413, "too_large");
    assert_eq!(server.get("/v1/stats")["tasks"], 0);
}

/// Each piece of a body once cost a kilobyte of the memory for all bodies, so that a few requests in pieces
/// of a byte had all of it.
#[test]
fn bodies_in_tiny_pieces_take_no_memory_from_others() {
    let server = Server::with(&["--body-timeout", "60s"]);
    let piece = b"1\r\n \r\n".repeat(60_000);
    let mut held = Vec::new();
    for _ in 0..6 {
        let mut stream = server.connect();
        let head = "POST /v1/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&piece).unwrap();
        held.push(stream);
    }
    for _ in 0..50 {
        server.submit(&json!({ "kind": "x" }));
    }
    for stream in &mut held {
        stream.write_all(b"d\r\n{\"kind\": \"x\"}\r\n0\r\n\r\n").unwrap();
        let (status, _) = head(&mut BufReader::new(stream));
        assert_eq!(status, 201);
    }
}
