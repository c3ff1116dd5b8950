//! What cannot be meant, and servers that are not there or are none: one line, and nothing is changed.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use windlass::remote::{PROTOCOL, PROTOCOL_HEADER};

use super::kit::Server;
use super::support::Place;
use super::{through, url};

#[test]
fn commands_that_need_the_store_itself_say_so() {
    let server = Server::start();
    let place = through(&server);
    for command in [&["serve"][..], &["migrate"], &["migrate", "--sql"], &["bench"], &["demo"]] {
        place.run(command).told(2, "needs the store itself");
    }
    assert_eq!(place.files(), [""; 0]);
    // What only prints asks nobody.
    assert_eq!(place.run(&["serve", "--print-openapi"]).code, 0);
    assert_eq!(place.run(&["completions", "bash"]).code, 0);
    let said = place.run(&["migrate", "--store", "sqlite:own.db"]);
    assert_eq!(said.code, 0, "what was typed beats the environment: {}", said.err);
    assert_eq!(place.files(), ["own.db"]);
}

#[test]
fn one_place_is_meant() {
    let server = Server::start();
    let (place, url) = (Place::new(), url(&server));
    place.run(&["stats", "--store", "memory:", "--server", &url]).told(2, "cannot both be meant");
    let both = Place::with_store("sqlite:x.db").with("WINDLASS_SERVER", &*url);
    both.run(&["stats"]).told(2, "WINDLASS_STORE and WINDLASS_SERVER are both set");
    assert_eq!(both.run(&["stats", "--server", &url]).code, 0);
    assert_eq!(both.run(&["submit", "x", "--store", "sqlite:y.db"]).code, 0);
    assert_eq!(both.files(), ["y.db"]);
    place.run(&["stats", "--token-file", "t"]).told(2, "--token-file");
    place.run(&["stats", "--ca-file", "c"]).told(2, "--ca-file");
    place.run(&["stats", "--server", &url, "--ca-file", "c"]).told(2, "https://");
    place.run(&["stats", "--server", &url, "--token-file", "nowhere"]).told(2, "the token file nowhere");
    let empty = place.file("empty", "\n");
    std::fs::set_permissions(empty, Permissions::from_mode(0o600)).unwrap();
    place.run(&["stats", "--server", &url, "--token-file", "empty"]).told(2, "is empty");
    assert_eq!(place.run(&["stats", "--store", &url]).code, 0, "an address is an address");
    for bad in ["localhost:7070", "ftp://x", "http://", "http://ada:s3cret@x", "http://x/?y"] {
        let said = place.run(&["stats", "--server", bad]);
        said.told(2, "server address");
        assert!(!said.err.contains("s3cret"), "{}", said.err);
    }
    assert_eq!(place.files(), ["empty"]);
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let place = Place::new().with("WINDLASS_SERVER", &*url);
    for command in
        [&["stats"][..], &["submit", "x"], &["work", "--exec", "x=true"], &["doctor"], &["task", "list"]]
    {
        place.run(command).told(1, &format!("{url} cannot be reached"));
    }
    place.run(&["stats", "--server", "http://no-such-host.invalid"]).told(1, "cannot be reached");
    assert_eq!(place.files(), [""; 0]);
}

/// Answers every request with `text`.
fn imposter(text: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // Enough of it to know that it has come.
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(text.as_bytes());
        }
    });
    url
}

#[test]
fn what_is_not_this_version_of_windlass_is_told_so() {
    let other = PROTOCOL + 1;
    for (answer, told) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi".into(), "not a Windlass server".to_owned()),
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".into(), "not a Windlass server".into()),
        ("SSH-2.0-OpenSSH_9\r\n".into(), "is it a Windlass server".into()),
        (
            format!("HTTP/1.1 200 OK\r\n{PROTOCOL_HEADER}: {other}\r\ncontent-length: 2\r\n\r\n{{}}"),
            format!("speaks protocol {other}, this program {PROTOCOL}; use the same version of both"),
        ),
    ] {
        Place::new().with("WINDLASS_SERVER", imposter(answer)).run(&["stats"]).told(1, &told);
    }
    // And the other way round.
    let server = Server::start();
    for (spoken, named) in [(Some(other.to_string()), other.to_string()), (None, "none".into())] {
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(spoken.as_deref().map(|spoken| (PROTOCOL_HEADER, spoken)));
        let answer = server.ask_with("POST", "/v1/store", &headers, Some(b"{\"count_tasks\":{}}"));
        let problem = answer.refused(409, "protocol_mismatch");
        let told = format!(
            "the server speaks protocol {PROTOCOL}, this program {named}; use the same version of both"
        );
        assert_eq!(problem["detail"], json!(told));
        assert_eq!(answer.header(PROTOCOL_HEADER), Some(&*PROTOCOL.to_string()));
    }
}

/// The first call of a remote store.
const HELLO: &str = "{\"connection\":{\"hello\":{}}}";

#[test]
fn what_is_sent_by_hand_is_checked() {
    let server = Server::start();
    let number = PROTOCOL.to_string();
    let headers = [("content-type", "application/json"), (PROTOCOL_HEADER, &*number)];
    let ask = |path: &str, body: &str| server.ask_with("POST", path, &headers, Some(body.as_bytes()));
    let hello = ask("/v1/store", HELLO).told(200);
    assert_eq!(hello["answer"]["Ok"]["version"], env!("CARGO_PKG_VERSION"));
    for bad in ["", "{}", "[]", "{\"x\":{}}", "{\"get_task\":{\"id\":\"7\"}}", &format!("{HELLO}{HELLO}")] {
        ask("/v1/store", bad).refused(422, "invalid_body");
    }
    ask(
        "/v1/store",
        "{\"connection\":{\"watch\":{\"server\":1,\"heard\":{\"claimable\":0,\"timed\":0,\"settled\":0,\"revoked\":0}}}}",
    )
    .refused(422, "invalid_body");
    ask("/v1/store/watch", HELLO).refused(422, "invalid_body");
    let leading = "{\"campaign\":{\"candidate\":\"x\",\"lease\":{\"secs\":9,\"nanos\":0}}}";
    ask("/v1/store", leading).refused(403, "forbidden");
    // A page of a browser can neither name the type nor the protocol without being asked first.
    let plain = [("content-type", "text/plain"), (PROTOCOL_HEADER, &*number)];
    let refused = server.ask_with("POST", "/v1/store", &plain, Some(HELLO.as_bytes()));
    refused.refused(415, "unsupported_media_type");
    server.ask("GET", "/v1/store", None).refused(405, "method_not_allowed");
    assert!(server.get("/openapi.json")["paths"]["/v1/store"].is_null(), "it is nobody else's");
}
