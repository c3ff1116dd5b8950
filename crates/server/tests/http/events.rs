//! The stream of changes: in order, resumed without gaps and without repeats.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::kit::{Server, chunk, head, outcome, request, text};

/// A stream that is being read.
pub(crate) struct Stream {
    reader: BufReader<TcpStream>,
    rest: String,
    /// The id of the last event.
    pub(crate) heard: String,
}

/// One event.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Told {
    event: String,
    pub(crate) data: Value,
}

impl Stream {
    pub(crate) fn open(server: &Server, query: &str, heard: Option<&str>) -> Self {
        Self::open_as(server, query, heard, None)
    }

    /// With a token.
    pub(crate) fn open_as(server: &Server, query: &str, heard: Option<&str>, token: Option<&str>) -> Self {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let mut headers: Vec<_> = heard.map(|id| ("last-event-id", id)).into_iter().collect();
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        let mut stream = server.connect();
        stream.write_all(&request("GET", &format!("/v1/events{query}"), &headers, None)).unwrap();
        let mut reader = BufReader::new(stream);
        let (status, headers) = head(&mut reader);
        assert_eq!(status, 200);
        assert!(headers.contains(&("content-type".into(), "text/event-stream".into())), "{headers:?}");
        let mut opened = Self { reader, rest: String::new(), heard: String::new() };
        assert_eq!(opened.next().event, "ready");
        opened
    }

    /// The next event, whatever it is.
    pub(crate) fn next(&mut self) -> Told {
        loop {
            while let Some((block, rest)) =
                self.rest.split_once("\n\n").map(|(a, b)| (a.to_owned(), b.to_owned()))
            {
                self.rest = rest;
                let field = |name: &str| {
                    block
                        .lines()
                        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
                        .map(str::to_owned)
                };
                if let Some(id) = field("id") {
                    self.heard = id;
                }
                if let Some(data) = field("data") {
                    return Told {
                        event: field("event").unwrap(),
                        data: serde_json::from_str(&data).unwrap(),
                    };
                }
            }
            let more = chunk(&mut self.reader).expect("the stream goes on");
            self.rest += std::str::from_utf8(&more).unwrap();
        }
    }

    /// Reads on to the end, which must be one that was meant.
    pub(crate) fn ends(&mut self) {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.reader.read_line(&mut line).unwrap() > 0, "the connection was cut");
            if line.trim_end() == "0" {
                return;
            }
        }
    }

    /// The states that a task goes through, up to a final one.
    fn states(&mut self, id: &str) -> Vec<String> {
        let mut states = Vec::new();
        loop {
            let told = self.next();
            if told.event == "task" && told.data["id"] == id {
                states.push(text(&told.data["state"]));
                if states.last().is_some_and(|state| state == "completed") {
                    return states;
                }
            }
        }
    }
}

fn work_one(server: &Server, worker: &str) {
    let task = &server.claim(worker, &json!({ "wait_seconds": 60 }))[0];
    server.finish(worker, &outcome(task, "completed", &json!({ "result": 1 })));
}

#[test]
fn changes_are_told_as_they_happen() {
    for server in Server::each() {
        let me = server.register(&json!({ "kinds": ["x", "y"] }));
        let (mut all, mut some) =
            (Stream::open(&server, "", None), Stream::open(&server, "?kind=y&state=completed", None));
        let id = server.submit(&json!({ "kind": "x", "queue": "default" }));
        work_one(&server, &me);
        let states = all.states(&id);
        assert_eq!(states.first().map(String::as_str), Some("pending"));
        assert_eq!(states.last().map(String::as_str), Some("completed"));
        let other = server.submit(&json!({ "kind": "y" }));
        work_one(&server, &me);
        let told = some.next();
        assert_eq!(
            (&told.data["id"], &told.data["state"], &told.data["kind"]),
            (&json!(other), &json!("completed"), &json!("y"))
        );
        let workflow =
            text(&server.post("/v1/workflows", &json!({ "steps": { "a": { "task": "x" } } }))["id"]);
        work_one(&server, &me);
        loop {
            let told = all.next();
            if told.event == "workflow" && told.data["state"] == "complete" {
                assert_eq!(
                    (&told.data["id"], &told.data["definition"]),
                    (&json!(workflow), &json!("ad-hoc"))
                );
                break;
            }
        }
    }
}

#[test]
fn a_stream_is_resumed_without_gaps_and_without_repeats() {
    for server in Server::each() {
        let me = server.register(&json!({ "kinds": ["x"] }));
        let mut whole = Stream::open(&server, "?kind=x", None);
        let mut heard = Some(whole.heard.clone());
        let mut pieces = Vec::new();
        let ids: Vec<_> = (0..12)
            .map(|_| {
                let id = server.submit(&json!({ "kind": "x" }));
                work_one(&server, &me);
                // A little is read, then the connection is cut.
                let mut piece = Stream::open(&server, "?kind=x", heard.as_deref());
                pieces.push(piece.next());
                heard = Some(piece.heard.clone());
                id
            })
            .collect();
        let mut last = Stream::open(&server, "?kind=x", heard.as_deref());
        let end = json!(ids.last().unwrap());
        let is_end = |told: &Told| told.data["id"] == end && told.data["state"] == "completed";
        while !pieces.last().is_some_and(is_end) {
            pieces.push(last.next());
        }
        let mut expected = Vec::new();
        while !expected.last().is_some_and(is_end) {
            expected.push(whole.next());
        }
        assert_eq!(pieces, expected);
    }
}

#[test]
fn a_stream_goes_on_after_the_server_was_killed() {
    for server in Server::each() {
        let mut stream = Stream::open(&server, "", None);
        let first = server.submit(&json!({ "kind": "x" }));
        assert_eq!(stream.next().data["id"], json!(first));
        let heard = stream.heard.clone();
        let second = server.submit(&json!({ "kind": "x" }));
        let (place, address) = (server.place, server.address.to_string());
        server.running.kill();
        let again = Server::in_place(place, &["--listen", &address]);
        let third = again.submit(&json!({ "kind": "x" }));
        let mut stream = Stream::open(&again, "", Some(&heard));
        assert_eq!(
            [stream.next(), stream.next()].map(|told| told.data["id"].clone()),
            [json!(second), json!(third)]
        );
    }
}

#[test]
fn who_was_away_too_long_is_told_so() {
    let server = Server::start();
    let mut stream = Stream::open(&server, "", Some("e0-7fffffff"));
    assert_eq!(stream.next().event, "reset");
    let id = server.submit(&json!({ "kind": "x" }));
    assert_eq!(stream.next().data["id"], json!(id));
}
