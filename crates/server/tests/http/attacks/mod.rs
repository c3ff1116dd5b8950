//! Attacks: attempts to get what is not one's own, or to keep others from what is. `list.txt` has those that
//! are one request; those that take more are here.

use std::io::{BufReader, Read, Write};
use std::net::Shutdown;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use windlass::WorkflowId;

use super::access::{Holder, create};
use super::kit::{Answer, Server, answer, list, text};
use super::support::Place;

/// Who sends less than it announces is given up soon.
const LIMITS: [&str; 6] = ["--max-body-bytes", "4000000", "--header-timeout", "1s", "--body-timeout", "2s"];

const LIST: &str = include_str!("list.txt");

/// One attempt.
#[derive(Debug)]
struct Attack {
    name: &'static str,
    by: &'static str,
    sent: Sent,
    headers: Vec<(&'static str, &'static str)>,
    must: Must,
}

/// What is sent.
#[derive(Debug)]
enum Sent {
    Asked { method: &'static str, path: &'static str, body: String },
    Raw(String),
}

/// What must happen.
#[derive(Debug)]
enum Must {
    Answer { status: u16, code: Option<&'static str> },
    HangUpOr(Vec<u16>),
}

impl Attack {
    fn read(block: &'static str) -> Self {
        let mut lines = block.lines();
        let name = lines.next().unwrap();
        let (by, sent) = lines.next().unwrap().trim().split_once(": ").unwrap_or_else(|| panic!("{block}"));
        let (mut headers, mut must) = (Vec::new(), None);
        for line in lines.map(str::trim_start) {
            if let Some(header) = line.strip_prefix("+ ") {
                headers.push(header.split_once(": ").unwrap_or_else(|| panic!("{block}")));
            } else {
                must = Some(Must::read(line.strip_prefix("= ").unwrap_or_else(|| panic!("{block}"))));
            }
        }
        let must = must.unwrap_or_else(|| panic!("{name}: what must happen?"));
        Self { name, by, sent: Sent::read(sent), headers, must }
    }
}

impl Sent {
    fn read(line: &'static str) -> Self {
        let unquoted =
            |text: &str| serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        if let Some(bytes) = line.strip_prefix("raw ") {
            return Self::Raw(unquoted(bytes));
        }
        let (method, rest) = line.split_once(' ').unwrap_or_else(|| panic!("{line}"));
        let (path, body) = rest.split_once(' ').unwrap_or((rest, ""));
        let body = body.strip_prefix("text ").map_or_else(|| body.to_owned(), unquoted);
        Self::Asked { method, path, body }
    }
}

impl Must {
    fn read(line: &'static str) -> Self {
        let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("{line}"));
        if let Some(statuses) = line.strip_prefix("hang up or ") {
            return Self::HangUpOr(statuses.split(' ').map(number).collect());
        }
        let (status, code) = line.split_once(' ').map_or((line, None), |(status, code)| (status, Some(code)));
        Self::Answer { status: number(status), code }
    }
}

/// The attempts under a heading of the list.
fn attacks(heading: &str) -> Vec<Attack> {
    let (_, part) = LIST.split_once(&format!("## {heading}\n")).unwrap();
    let blocks = part.split("\n## ").next().unwrap().split("\n\n").map(str::trim);
    blocks.filter(|block| !block.is_empty() && !block.starts_with('#')).map(Attack::read).collect()
}

/// Repeats what is in `<<text*times>>`.
fn repeat(text: &str) -> String {
    let Some((before, rest)) = text.split_once("<<") else { return text.to_owned() };
    let (part, after) = rest.split_once(">>").unwrap();
    let (part, times) = part.rsplit_once('*').unwrap();
    before.to_owned() + &part.repeat(times.parse().unwrap()) + &repeat(after)
}

/// A server, and what stands for the words of the list.
struct Target {
    server: Server,
    words: Vec<(&'static str, String)>,
    tokens: Vec<(&'static str, String)>,
    worker_secret: Option<String>,
}

impl Target {
    /// With a token of every sort, or without.
    fn set(has_tokens: bool) -> Self {
        let (place, elsewhere) = (Place::new(), Place::new());
        let mut tokens = Vec::new();
        if has_tokens {
            for scope in ["read", "submit", "work", "admin"] {
                tokens.push((scope, create(&place, scope, &["--scope", scope])));
            }
            for (name, more) in [
                ("mail", &["--queue", "mail-*"][..]),
                ("expired", &["--expires", "0s"]),
                ("revoked", &[]),
                ("ops", &[]),
            ] {
                tokens.push((name, create(&place, name, &[&["--scope", "admin"], more].concat())));
            }
            place.json(&["token", "revoke", "revoked"]);
            tokens.push(("elsewhere", create(&elsewhere, "admin", &["--scope", "admin"])));
        }
        let server = Server::in_place(place, &LIMITS);
        let mut target = Self { server, words: Vec::new(), tokens, worker_secret: None };
        let id = |answer: &Value, field: &str| text(&answer[field]);
        let held = id(&target.made("POST", "/v1/tasks", &json!({ "kind": "held" })), "id");
        let worker =
            json!({ "kinds": ["held"], "worker_id": "worker-of-another", "dead_after_seconds": 3600 });
        let registered = target.made("POST", "/v1/workers", &worker);
        target.worker_secret = registered["worker_secret"].as_str().map(str::to_owned);
        let claimed = target.made("POST", "/v1/workers/worker-of-another/claim", &json!({}));
        assert_eq!(claimed["tasks"][0]["id"], *held);
        let task = json!({ "kind": "x", "idempotency_key": "secret" });
        let task = id(&target.made("POST", "/v1/tasks", &task), "id");
        let known = json!({ "name": "known", "steps": { "a": { "task": "x" } } });
        target.made("PUT", "/v1/definitions/known", &known);
        let flow = id(&target.made("POST", "/v1/workflows", &json!({ "definition": "known" })), "id");
        target.words =
            vec![("TASK", task), ("HELD", held), ("WORKER", "worker-of-another".into()), ("FLOW", flow)];
        if let Some(operator) = target.token("admin").map(str::to_owned) {
            let (id, secret) = operator[3..].split_once('_').unwrap();
            let digest = Sha256::digest(secret).iter().map(|byte| format!("{byte:02x}")).collect();
            target.words.extend([
                ("NOTHING", String::new()),
                ("OPERATOR_ID", id.to_owned()),
                ("OPERATOR_DIGEST", digest),
                ("OPERATOR_HALF", operator[..40].to_owned()),
                ("AUTHORIZATION", format!("authorization: Bearer {operator}\r\n")),
                ("OPERATOR", operator),
            ]);
        }
        target
    }

    fn token(&self, name: &str) -> Option<&str> {
        self.tokens.iter().find(|(known, _)| *known == name).map(|(_, token)| &**token)
    }

    /// Asks as an operator.
    fn operate(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let authorization = format!("Bearer {}", self.token("admin").unwrap_or_default());
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(self.worker_secret.iter().map(|secret| ("windlass-worker-secret", &**secret)));
        headers.extend(self.token("admin").map(|_| ("authorization", &*authorization)));
        let body = body.map(ToString::to_string);
        self.server.ask_with(method, path, &headers, body.as_deref().map(str::as_bytes))
    }

    fn made(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.operate(method, path, Some(body));
        assert!(answer.status < 300, "{method} {path}: {}", answer.body);
        answer.json()
    }

    fn fill(&self, text: &str) -> String {
        let fill = |text: String, (word, value): &(&str, String)| text.replace(&format!("[{word}]"), value);
        repeat(&self.words.iter().fold(text.to_owned(), fill))
    }

    /// What an attempt may not change.
    fn everything(&self) -> Vec<Value> {
        let paths =
            ["tasks", "tasks/[HELD]", "workers", "workflows", "schedules", "definitions", "queues", "audit"];
        let seen = paths.map(|path| {
            let mut seen = self.operate("GET", &self.fill(&format!("/v1/{path}")), None).told(200);
            for row in seen["workers"].as_array_mut().into_iter().flatten() {
                // The server's own heartbeat.
                row["heartbeat_at"] = Value::Null;
            }
            seen
        });
        seen.into()
    }

    /// Sends it, and gives what came.
    fn attempt(&self, attack: &Attack) -> Vec<u8> {
        let authorization = self.token(attack.by).map(|token| format!("Bearer {token}"));
        let mut stream = self.server.connect();
        let bytes = match &attack.sent {
            Sent::Raw(bytes) => self.fill(bytes).into_bytes(),
            Sent::Asked { method, path, body } => {
                let filled: Vec<_> =
                    attack.headers.iter().map(|(name, value)| (*name, self.fill(value))).collect();
                let mut headers: Vec<_> = filled.iter().map(|(name, value)| (*name, &**value)).collect();
                if !body.is_empty() && !headers.iter().any(|(name, _)| *name == "content-type") {
                    headers.push(("content-type", "application/json"));
                }
                // First, so that a second one comes behind it.
                headers.splice(..0, authorization.iter().map(|token| ("authorization", &**token)));
                let (path, body) = (self.fill(path), self.fill(body));
                request(method, &path, &headers, Some(body.as_bytes()).filter(|body| !body.is_empty()))
            }
        };
        // The server may hang up while it is still being written to, and a reset is an end as well.
        let _ = stream.write_all(&bytes);
        let mut came = Vec::new();
        let _ = stream.read_to_end(&mut came);
        came
    }

    /// Why an attempt did not go as it must.
    fn judge(attack: &Attack, came: &[u8]) -> Result<(), String> {
        let shown = String::from_utf8_lossy(&came[..came.len().min(600)]).into_owned();
        let wrong =
            |why: &str| Err(format!("{}: {why}: {:?} was answered with {shown}", attack.name, attack.must));
        let answers = String::from_utf8_lossy(came).matches("HTTP/1.1 ").count();
        if answers > 1 {
            return wrong("two answers");
        }
        let came = (answers == 1).then(|| answer(&mut BufReader::new(came)));
        let Some(came) = came else {
            return if matches!(attack.must, Must::HangUpOr(_)) { Ok(()) } else { wrong("no answer") };
        };
        let kind = came.header("content-type").unwrap_or("none");
        if kind.contains("html") || came.header("set-cookie").is_some() || came.body.contains('\u{1b}') {
            return wrong("an answer that a browser or a terminal may act on");
        }
        match &attack.must {
            Must::HangUpOr(statuses) if statuses.contains(&came.status) => Ok(()),
            Must::Answer { status, code: None } if *status == came.status => Ok(()),
            Must::Answer { status, code: Some(code) } if *status == came.status => {
                let problem: Value = serde_json::from_str(&came.body).unwrap_or_default();
                if problem["code"] == **code { Ok(()) } else { wrong("another code") }
            }
            _ => wrong("another status"),
        }
    }

    fn withstands(mut self, attacks: &[Attack]) {
        let (mut before, mut failures) = (self.everything(), Vec::new());
        for attack in attacks {
            let came = self.attempt(attack);
            failures.extend(Self::judge(attack, &came).err());
            let after = self.everything();
            for (before, after) in before.iter().zip(&after).filter(|(before, after)| before != after) {
                failures.push(format!("{}: it has changed something: {before}\n{after}", attack.name));
            }
            before = after;
        }
        assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), attacks.len(), failures.join("\n"));
        self.server.running.signal(rustix::process::Signal::TERM);
        let log = self.server.running.end().err;
        let is_forged = |line: &str| line.contains('\u{1b}') || line.starts_with("forged-line");
        assert!(!log.lines().any(is_forged), "what was sent stands in the log as it is: {log}");
    }
}

#[test]
fn no_attack_on_a_server_with_tokens_gets_anywhere() {
    let attacks = attacks("A server with tokens");
    assert!(attacks.len() >= 60, "{}", attacks.len());
    Target::set(true).withstands(&attacks);
}

#[test]
fn no_attack_on_a_server_without_tokens_gets_anywhere() {
    Target::set(false).withstands(&attacks("A server on this machine without tokens"));
}

/// A request within another's body, for a proxy that reads lengths where the server reads chunks: it is asked
/// with its own token, or none.
#[test]
fn a_smuggled_request_brings_no_token_along() {
    let target = Target::set(true);
    let before = target.everything();
    let smuggled = "POST /v1/queues/default/pause HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{}";
    let bytes = target.fill(&format!(
        "GET /v1/tasks HTTP/1.1\r\nhost: localhost\r\n[AUTHORIZATION]content-length: {}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}",
        smuggled.len() + 5
    ));
    let mut stream = target.server.connect();
    stream.write_all(bytes.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut came = String::new();
    let _ = stream.read_to_string(&mut came);
    let statuses: Vec<_> = came.split("HTTP/1.1 ").skip(1).map(|one| &one[..3]).collect();
    assert!(statuses == ["200", "401"] || statuses == ["400"] || statuses == ["200"], "{came}");
    assert_eq!(target.everything(), before);
}

/// Whatever stands in a text is kept and shown as it is, and means nothing.
#[test]
fn texts_are_data() {
    let target = Target::set(true);
    let texts = [
        "'; DROP TABLE tasks; --",
        "\" OR \"\"=\"",
        "$(touch forged)",
        "`touch forged`",
        "<script>alert(1)</script>",
        "%s%n${jndi:ldap://evil.example/x}{{7*7}}",
        "\u{1b}]0;title\u{7}\u{1b}[2J",
        "a\r\nset-cookie: a=b\r\n\r\nforged-line",
        "\u{202e}txt.exe",
    ];
    for text_of in texts {
        let task = json!({
            "kind": "y", "idempotency_key": text_of, "payload": { text_of: text_of }, "tags": [text_of],
            "entity": format!("team:{text_of}"),
        });
        let id = text(&target.made("POST", "/v1/tasks", &task)["id"]);
        let seen = target.operate("GET", &format!("/v1/tasks/{id}"), None);
        assert_eq!(seen.header("content-type"), Some("application/json"), "{text_of:?}");
        let seen = seen.told(200);
        assert_eq!(seen["payload"], json!({ text_of: text_of }));
        assert_eq!(seen["tags"], json!([text_of]));
        let encoded: String = text_of.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let found = target.operate("GET", &format!("/v1/tasks/by-key?kind=y&key={encoded}"), None).told(200);
        assert_eq!(found["id"], *id, "{text_of:?}");
        target.made(
            "POST",
            &format!("/v1/tasks/{id}/cancel"),
            &json!({ "reason": text_of, "actor": text_of }),
        );
        // On a terminal it is shown, and not obeyed.
        let shown = target.server.place.run(&["task", "get", &*id]);
        assert!(
            shown.code == 0 && !shown.out.contains('\u{1b}') && !shown.out.contains('\u{7}'),
            "{}",
            shown.out
        );
        let audit = target.server.place.run(&["audit"]);
        assert!(
            !audit.out.contains('\u{1b}') && !audit.out.lines().any(|line| line.starts_with("forged-line"))
        );
    }
    assert!(!target.server.place.files().contains(&"forged".to_owned()));
    assert_eq!(list(&target.operate("GET", "/v1/tasks?kind=y", None).told(200)["tasks"]).len(), texts.len());
}

/// A picture is shown by browsers, and may hold programs for them.
#[test]
fn a_picture_holds_no_program() {
    let target = Target::set(true);
    let steps = json!({ "steps": { "a": {
        "task": "x", "if": "input.a == '<script>alert(1)</script>\"><svg onload=alert(1)>'",
        "input": { "b": "<script>alert(1)</script>" }
    } }, "input": { "a": "<img src=x onerror=alert(1)>" } });
    let flow = text(&target.made("POST", "/v1/workflows", &steps)["id"]);
    let drawn = target.operate("GET", &format!("/v1/workflows/{flow}/graph.svg"), None);
    assert_eq!((drawn.status, drawn.header("content-type")), (200, Some("image/svg+xml")));
    for program in ["<script", "onload=", "onerror=", "<img", "javascript:", "<foreignObject"] {
        let is_there =
            drawn.body.contains(program) && !drawn.body.contains(&format!("&lt;{}", &program[1..]));
        assert!(!is_there, "{program} in {}", drawn.body);
    }
}

/// Who acts is the token; whom it acts for, it may say. The audit cannot be made to say otherwise.
#[test]
fn nobody_signs_with_another_name() {
    let target = Target::set(true);
    let forged = json!({ "actor": "admin", "reason": "forged" });
    let ops = Holder(&target.server, target.token("ops").unwrap().to_owned());
    for (method, path, body) in [
        ("POST", target.fill("/v1/tasks/[TASK]/cancel"), Some(&forged)),
        ("POST", "/v1/queues/q/pause".into(), Some(&forged)),
        ("DELETE", target.fill("/v1/tasks/[TASK]?actor=admin"), None),
    ] {
        let answer = ops.ask(method, &path, body);
        assert!(answer.status < 300, "{path}: {}", answer.body);
        let last = target.operate("GET", "/v1/audit?limit=1", None).told(200)["entries"][0]["actor"].clone();
        assert_eq!(last, "ops for admin", "{path}");
    }
}

/// The ids of the items of a list are known before there are items. A task that takes one of them must not
/// stop the workflow.
#[test]
fn a_task_cannot_take_the_place_of_an_item() {
    for has_tokens in [true, false] {
        let target = Target::set(has_tokens);
        let steps = json!({ "steps": { "a": { "task": "item", "map": { "over": [1, 2] } } } });
        let flow = text(&target.made("POST", "/v1/workflows", &steps)["id"]);
        let id: WorkflowId = flow.parse().unwrap();
        let first = id.items(0).start().to_string();
        let squatter = json!({ "kind": "squatter", "id": first });
        target.operate("POST", "/v1/tasks", Some(&squatter)).refused(409, "id_conflict");
        let worker = target.made("POST", "/v1/workers", &json!({ "kinds": ["item"] }));
        let secret = worker["worker_secret"].as_str().unwrap_or_default().to_owned();
        let worker = text(&worker["worker_id"]);
        let authorization = format!("Bearer {}", target.token("admin").unwrap_or_default());
        let ask = |path: String, body: Value| {
            let mut headers = vec![("content-type", "application/json")];
            headers.extend(target.token("admin").map(|_| ("authorization", &*authorization)));
            headers.extend(
                Some(&*secret)
                    .filter(|secret| !secret.is_empty())
                    .map(|secret| ("windlass-worker-secret", secret)),
            );
            target.server.ask_with("POST", &path, &headers, Some(body.to_string().as_bytes()))
        };
        let mut done = 0;
        for _ in 0..4 {
            let claimed =
                ask(format!("/v1/workers/{worker}/claim"), json!({ "limit": 10, "wait_seconds": 1 }));
            let outcomes: Vec<_> = list(&claimed.told(200)["tasks"])
                .iter()
                .map(|task| json!({ "id": task["id"], "lease": task["lease"], "outcome": "completed" }))
                .collect();
            done += outcomes.len();
            if !outcomes.is_empty() {
                ask(format!("/v1/workers/{worker}/finish"), json!({ "outcomes": outcomes })).told(200);
            }
        }
        let ended = target.operate("GET", &format!("/v1/workflows/{flow}"), None).told(200);
        assert_eq!((&ended["state"], done), (&json!("complete"), 2), "{ended}");
    }
}

/// The bytes of a request, with no header that was not asked for: the usual kit sends the secret of a worker.
fn request(method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if let Some(body) = body {
        head += &format!("content-length: {}\r\n", body.len());
    }
    [format!("{head}\r\n").as_bytes(), body.unwrap_or_default()].concat()
}
