//! A server for one test, and a client that writes requests by hand: so that it can also write bad ones.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use serde_json::{Value, json};
use windlass_testbed::postgres;

use super::support::{Place, Running};

/// Longer than anything takes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A server that runs beside the test.
pub(crate) struct Server {
    pub(crate) place: Place,
    pub(crate) running: Running,
    pub(crate) address: SocketAddr,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// It is this refusal.
    pub(crate) fn refused(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.body);
        let problem = self.json();
        assert_eq!((&problem["code"], &problem["status"]), (&json!(code), &json!(status)), "{problem}");
        assert!(
            !problem["title"].as_str().unwrap().is_empty() && !problem["detail"].as_str().unwrap().is_empty()
        );
        problem
    }

    /// It is this success.
    pub(crate) fn told(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.json()
    }
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::in_place(Place::new(), &[])
    }

    pub(crate) fn with(arguments: &[&str]) -> Self {
        Self::in_place(Place::new(), arguments)
    }

    /// On a file, and on a database of its own.
    pub(crate) fn each() -> [Self; 2] {
        let name = format!("http_{}", uuid::Uuid::new_v4().simple());
        let url = postgres::shared().create_database(&name).unwrap();
        [Self::start(), Self::in_place(Place::with_store(url), &[])]
    }

    pub(crate) fn in_place(place: Place, arguments: &[&str]) -> Self {
        let mut command = place.program();
        let has_address = arguments.contains(&"--listen");
        command.arg("serve").args(arguments);
        if !has_address {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let mut running = Running::start(&mut command);
        let line = running.until("serving http");
        let address = line.rsplit("//").next().unwrap().parse().unwrap();
        Self { place, running, address }
    }

    /// A connection of one's own.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let body = body.map(ToString::to_string);
        self.ask_with(
            method,
            path,
            &[("content-type", "application/json")],
            body.as_deref().map(str::as_bytes),
        )
    }

    pub(crate) fn ask_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Answer {
        let mut stream = self.connect();
        stream.write_all(&request(method, path, headers, body)).unwrap();
        answer(&mut BufReader::new(stream))
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.ask("GET", path, None).told(200)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.ask("POST", path, Some(body));
        assert!(matches!(answer.status, 200 | 201), "{path} {body}: {} {}", answer.status, answer.body);
        answer.json()
    }

    /// Submits and gives the id.
    pub(crate) fn submit(&self, task: &Value) -> String {
        text(&self.post("/v1/tasks", task)["id"])
    }

    /// Registers a worker and gives its id.
    pub(crate) fn register(&self, worker: &Value) -> String {
        text(&self.post("/v1/workers", worker)["worker_id"])
    }

    pub(crate) fn claim(&self, worker: &str, body: &Value) -> Vec<Value> {
        list(&self.post(&format!("/v1/workers/{worker}/claim"), body)["tasks"])
    }

    pub(crate) fn finish(&self, worker: &str, outcome: &Value) -> Value {
        let body = json!({ "outcomes": [outcome] });
        self.post(&format!("/v1/workers/{worker}/finish"), &body)["outcomes"][0].clone()
    }

    /// Asks until what is there is in this state.
    pub(crate) fn until(&self, path: &str, state: &str) -> Value {
        let begun = Instant::now();
        loop {
            let found = self.get(path);
            if found["state"] == *state {
                return found;
            }
            assert!(begun.elapsed() < DEADLINE, "not {state}: {found}");
        }
    }

    pub(crate) fn task(&self, id: &str) -> Value {
        self.get(&format!("/v1/tasks/{id}"))
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

pub(crate) fn list(value: &Value) -> Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("{value}")).clone()
}

/// The proof of a claim.
pub(crate) fn lease(task: &Value) -> Value {
    json!({ "id": task["id"], "lease": task["lease"] })
}

/// What is reported about a claim.
pub(crate) fn outcome(task: &Value, word: &str, more: &Value) -> Value {
    let mut outcome = lease(task);
    outcome["outcome"] = json!(word);
    for (name, value) in more.as_object().unwrap() {
        outcome[name] = value.clone();
    }
    outcome
}

/// The secret of all workers that are registered by these tests, unless they send another.
pub(crate) const SECRET: &str = "wlw_0000000000000000000000000000000000000000000000000000000000000000";

/// The header of a worker's secret. One that is empty is not sent.
pub(crate) const SECRET_HEADER: &str = "windlass-worker-secret";

/// The bytes of a request.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    let is_of_workers = path.starts_with("/v1/workers") || path.starts_with("/v1/store");
    if is_of_workers && !headers.iter().any(|(name, _)| *name == SECRET_HEADER) {
        head += &format!("{SECRET_HEADER}: {SECRET}\r\n");
    }
    for (name, value) in headers.iter().filter(|(name, value)| *name != SECRET_HEADER || !value.is_empty()) {
        head += &format!("{name}: {value}\r\n");
    }
    if let Some(body) = body {
        head += &format!("content-length: {}\r\n", body.len());
    }
    [format!("{head}\r\n").as_bytes(), body.unwrap_or_default()].concat()
}

/// Reads an answer to its end.
pub(crate) fn answer(stream: &mut impl BufRead) -> Answer {
    let (status, headers) = head(stream);
    let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let mut body = Vec::new();
    if chunked {
        while let Some(chunk) = chunk(stream) {
            body.extend(chunk);
        }
    } else {
        stream.read_to_end(&mut body).unwrap();
    }
    Answer { status, headers, body: String::from_utf8(body).unwrap() }
}

/// Reads the status and the headers of an answer.
pub(crate) fn head(stream: &mut impl BufRead) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {line:?}")).parse().unwrap();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_lowercase(), value.to_owned())),
            None => return (status, headers),
        }
    }
}

/// The next part of a body that is sent in parts; `None` at its end.
pub(crate) fn chunk(stream: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = String::new();
    stream.read_line(&mut line).ok()?;
    let length = usize::from_str_radix(line.trim(), 16).ok()?;
    let mut chunk = vec![0; length + 2];
    stream.read_exact(&mut chunk).ok()?;
    chunk.truncate(length);
    if length == 0 { None } else { Some(chunk) }
}

/// Writes an authority's certificate, and one that it signed for a name, with its key.
pub(crate) fn certificates(place: &Place, name: &str) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let signed = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    place.file("ca.pem", authority.pem());
    place.file("cert.pem", signed.pem());
    place.file("key.pem", key.serialize_pem());
}
