//! A server with a token of every sort, and what there is of each namespace and queue.

use axum::body::Body;
use axum::http::{Request, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use windlass::access::Scope;
use windlass::remote::{PROTOCOL, PROTOCOL_HEADER, STORE_PATH};
use windlass::{AccessToken, AuditListing, Name, Page, Timestamp, WorkflowFilter};

use super::super::testing::Served;
use super::requests::Asked;
use super::verbs;
use crate::secret::Fresh;

/// What a token is limited to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Limit {
    pub(super) queues: bool,
    pub(super) namespaces: bool,
}

impl Limit {
    pub(super) const ALL: [Self; 4] = [
        Self { queues: false, namespaces: false },
        Self { queues: true, namespaces: false },
        Self { queues: false, namespaces: true },
        Self { queues: true, namespaces: true },
    ];

    /// Whether everything of a place is open to such a token.
    pub(super) fn opens(self, place: Location) -> bool {
        (place.queue_open || !self.queues) && (place.namespace_open || !self.namespaces)
    }
}

/// Who calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Who {
    Nobody,
    Holder(Scope, Limit),
}

/// What is asked.
#[derive(Clone, Copy)]
pub(super) enum Asks {
    Route(&'static Asked),
    /// One of [`verbs::calls`].
    Verb(usize),
}

impl Asks {
    /// The status of its success.
    pub(super) fn ok(self) -> u16 {
        match self {
            Self::Route(asked) => asked.ok,
            Self::Verb(_) => 200,
        }
    }
}

/// A namespace and a queue, as a limited token sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Location {
    pub(super) namespace_open: bool,
    pub(super) queue_open: bool,
}

impl Location {
    pub(super) const ALL: [Self; 4] = [
        Self { namespace_open: true, queue_open: true },
        Self { namespace_open: true, queue_open: false },
        Self { namespace_open: false, queue_open: true },
        Self { namespace_open: false, queue_open: false },
    ];

    fn index(self) -> usize {
        usize::from(!self.namespace_open) * 2 + usize::from(!self.queue_open)
    }

    fn namespace(self) -> &'static str {
        if self.namespace_open { "team-a" } else { "hidden-space" }
    }

    fn queue(self) -> &'static str {
        if self.queue_open { "mail-in" } else { "hidden-queue" }
    }
}

/// What there is of a place.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) place: Location,
    /// What stands for the words in square brackets of a request.
    words: Vec<(&'static str, String)>,
    worker_secret: Option<String>,
}

impl Scene {
    pub(super) fn fill(&self, text: &str) -> String {
        let fill = |text: String, (word, value): &(&str, String)| text.replace(&format!("[{word}]"), value);
        self.words.iter().fold(text.to_owned(), fill)
    }

    pub(super) fn word(&self, wanted: &str) -> &str {
        &self.words.iter().find(|(word, _)| *word == wanted).unwrap().1
    }

    /// What an answer that shows something of this place has in it.
    fn marks(&self) -> impl Iterator<Item = &str> {
        let own = ["TASK", "ENDED", "HELD", "FLOW", "WORKER", "KEY", "DEFINITION", "SCHEDULE", "ENTITY"];
        own.into_iter().map(|word| self.word(word))
    }

    fn path(&self, asked: &Asked) -> String {
        let (_, described) = asked.operation.split_once(' ').unwrap();
        let usual = described.replace("{step}", "a").replace("{entity}", "[ENTITY]");
        let usual = match described.split('/').nth(2) {
            Some("tasks") => usual.replace("{id}", "[TASK]"),
            Some("workers") => usual.replace("{id}", "[WORKER]"),
            Some("workflows") => usual.replace("{id}", "[FLOW]"),
            Some("definitions") => usual.replace("{name}", "[DEFINITION]"),
            Some("queues") => usual.replace("{name}", "[QUEUE]"),
            Some("schedules") => usual.replace("{name}", "[SCHEDULE]"),
            _ => usual,
        };
        let path = match asked.path {
            path if path.starts_with('/') => path.to_owned(),
            query => usual + query,
        };
        assert!(!path.contains('{'), "{path}: say in requests.rs what stands in its place");
        self.fill(&path)
    }
}

/// An answer, as far as it came.
#[derive(Debug)]
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    pub(super) body: String,
}

/// A server with its tokens and scenes.
pub(super) struct Stage {
    served: Served,
    tokens: Vec<(Who, String)>,
    pub(super) scenes: Vec<Scene>,
}

impl Stage {
    pub(super) async fn set(places: &[Location]) -> Self {
        let mut stage = Self { served: Served::start(), tokens: Vec::new(), scenes: Vec::new() };
        for limit in Limit::ALL {
            for scope in Scope::ALL {
                stage.create_token(scope, limit).await;
            }
        }
        for place in places {
            let scene = stage.scene(*place).await;
            stage.scenes.push(scene);
        }
        stage
    }

    async fn create_token(&mut self, scope: Scope, limit: Limit) {
        let fresh = Fresh::make().unwrap();
        let token = AccessToken {
            name: Name::stored(&format!("token-{}", self.tokens.len())),
            id: fresh.id.clone(),
            digest: fresh.digest,
            scopes: [scope].into(),
            queues: limit.queues.then(|| "mail-*".parse().unwrap()).into_iter().collect(),
            namespaces: limit.namespaces.then(|| "team-*".parse().unwrap()).into_iter().collect(),
            groups: Vec::new(),
            created_at: Timestamp::MIN,
            created_by: None,
            expires_at: None,
            previous: Vec::new(),
            last_used_at: None,
        };
        self.served.app.windlass.store().put_access_token(token).await.unwrap();
        self.tokens.push((Who::Holder(scope, limit), fresh.text));
    }

    pub(super) fn scene_of(&self, place: Location) -> &Scene {
        self.scenes.iter().find(|scene| scene.place == place).unwrap()
    }

    async fn request(
        &self,
        who: Who,
        method: &str,
        path: &str,
        body: &str,
        secret: Option<&str>,
    ) -> HttpAnswer {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if path == STORE_PATH {
            request = request.header(PROTOCOL_HEADER, PROTOCOL.to_string());
        }
        if let Some((_, token)) = self.tokens.iter().find(|(holder, _)| *holder == who) {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(secret) = secret {
            request = request.header("windlass-worker-secret", secret);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let (head, body) = self.served.route(request).await.into_parts();
        // A stream of events does not end.
        let is_stream =
            head.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
        let body = if is_stream { Vec::new() } else { body.collect().await.unwrap().to_bytes().to_vec() };
        HttpAnswer { status: head.status.as_u16(), body: String::from_utf8(body).unwrap() }
    }

    /// Asks about a place. What is shown that should not be is added to `failures`.
    pub(super) async fn ask(
        &self,
        who: Who,
        asks: Asks,
        scene: &Scene,
        failures: &mut Vec<String>,
    ) -> HttpAnswer {
        let secret = scene.worker_secret.as_deref();
        let (what, answer) = match asks {
            Asks::Route(asked) => {
                let (method, _) = asked.operation.split_once(' ').unwrap();
                let (path, body) = (scene.path(asked), scene.fill(asked.body));
                let answer = self.request(who, method, &path, &body, secret).await;
                (format!("{method} {path}"), answer)
            }
            Asks::Verb(at) => {
                let call = serde_json::to_string(&verbs::calls(scene)[at].1).unwrap();
                let answer = self.request(who, "POST", STORE_PATH, &call, secret).await;
                (call, answer)
            }
        };
        failures.extend(
            self.shown(who, scene, &answer).map(|shown| format!("{who:?} is shown {shown:?} by {what}")),
        );
        answer
    }

    /// What stands in an answer although it is closed to the caller. What the caller named itself may be
    /// repeated in a refusal.
    fn shown(&self, who: Who, asked_about: &Scene, answer: &HttpAnswer) -> Option<Vec<&str>> {
        let Who::Holder(_, limit) = who else { return None };
        let is_refused = answer.status >= 300;
        let closed = self.scenes.iter().filter(|scene| !limit.opens(scene.place));
        let closed = closed.filter(|scene| !is_refused || scene.place != asked_about.place);
        let shown: Vec<_> = closed.flat_map(Scene::marks).filter(|mark| answer.body.contains(mark)).collect();
        Some(shown).filter(|shown| !shown.is_empty())
    }

    /// Asks as an operator what must succeed.
    async fn made(&self, method: &str, path: &str, body: Value) -> Value {
        let unlimited = Limit { queues: false, namespaces: false };
        let operator = Who::Holder(Scope::Admin, unlimited);
        let answer = self.request(operator, method, path, &body.to_string(), None).await;
        assert!(answer.status < 300, "{method} {path}: {answer:?}");
        serde_json::from_str(&answer.body).unwrap()
    }

    async fn scene(&self, place: Location) -> Scene {
        let (ns, queue, index) = (place.namespace(), place.queue(), place.index());
        let id = |answer: Value, field: &str| answer[field].as_str().unwrap().to_owned();
        let [worker, key, definition, schedule, entity] =
            ["worker", "key", "definition", "schedule", "entity"]
                .map(|word| format!("{word}-of-scene-{index}").replace("entity-", "entity:"));
        let at = |path: &str| format!("{path}?namespace={ns}");
        let submit = async |kind: &str, key: Option<&str>| {
            let task = json!({ "kind": kind, "namespace": ns, "queue": queue, "idempotency_key": key });
            id(self.made("POST", "/v1/tasks", task).await, "id")
        };
        let held = submit("held", None).await;
        let new = json!({ "kinds": ["held"], "namespace": ns, "queues": [queue], "worker_id": worker });
        let registered = self.made("POST", "/v1/workers", new).await;
        let worker_secret = registered["worker_secret"].as_str().map(str::to_owned);
        let unlimited = Limit { queues: false, namespaces: false };
        let (who, claim) = (Who::Holder(Scope::Admin, unlimited), format!("/v1/workers/{worker}/claim"));
        let claimed = self.request(who, "POST", &claim, "{}", worker_secret.as_deref()).await;
        assert!(claimed.body.contains(&held), "{claimed:?}");
        let task = submit("x", Some(&key)).await;
        let ended = submit("x", None).await;
        self.made("POST", &format!("/v1/tasks/{ended}/cancel"), json!({})).await;
        let cron = json!({ "cron": "0 3 * * *", "task": { "kind": "x", "namespace": ns, "queue": queue } });
        self.made("PUT", &at(&format!("/v1/schedules/{schedule}")), cron).await;
        self.made("PUT", &at(&format!("/v1/entities/{entity}")), json!({})).await;
        for (prefix, step) in [
            ("", json!({ "task": "x", "queue": queue })),
            ("run-", json!({ "run": "true", "queue": queue })),
            ("around-", json!({ "workflow": definition, "queue": "mail-in" })),
        ] {
            let name = format!("{prefix}{definition}");
            let body = json!({ "name": name, "steps": { "a": step } });
            self.made("PUT", &at(&format!("/v1/definitions/{name}")), body).await;
        }
        let start = async || {
            let body = json!({ "definition": definition, "namespace": ns });
            id(self.made("POST", "/v1/workflows", body).await, "id")
        };
        let [flow, broken, paused, over] = [start().await, start().await, start().await, start().await];
        self.made("POST", &format!("/v1/workflows/{broken}/steps/a/cancel"), json!({})).await;
        self.made("POST", &format!("/v1/workflows/{paused}/pause"), json!({})).await;
        self.made("POST", &format!("/v1/workflows/{over}/cancel"), json!({})).await;
        let words = vec![
            ("NS", ns.to_owned()),
            ("QUEUE", queue.to_owned()),
            ("WORKER", worker),
            ("KEY", key),
            ("DEFINITION", definition),
            ("SCHEDULE", schedule),
            ("ENTITY", entity),
            ("TASK", task),
            ("HELD", held),
            ("ENDED", ended),
            ("FLOW", flow),
            ("BROKEN", broken),
            ("PAUSED", paused),
            ("OVER", over),
        ];
        Scene { place, words, worker_secret }
    }

    /// Everything that a request may change.
    pub(super) async fn everything(&self) -> String {
        let store = self.served.app.windlass.store();
        let all = Page { limit: 1_000, ..Page::default() };
        let AuditListing { entries, .. } = store.audits(all).await.unwrap();
        let tokens = store.access_tokens().await.unwrap().into_iter();
        // That it was used is noted of each.
        let tokens: Vec<_> = tokens.map(|token| AccessToken { last_used_at: None, ..token }).collect();
        let namespace = Name::stored;
        format!(
            "{:?}",
            (
                store.tasks(windlass::Filter::default(), all).await.unwrap(),
                store.workflows(WorkflowFilter::default(), all).await.unwrap(),
                store.workers().await.unwrap(),
                store.schedules().await.unwrap(),
                (
                    store.definitions(namespace("team-a"), None).await.unwrap(),
                    store.definitions(namespace("hidden-space"), None).await.unwrap(),
                ),
                store.paused().await.unwrap(),
                (
                    store.entities(namespace("team-a"), None, 100).await.unwrap(),
                    store.entities(namespace("hidden-space"), None, 100).await.unwrap(),
                ),
                tokens,
                (store.leader().await.unwrap(), entries),
            )
        )
    }

    /// What a step may be, as the server says it when it is not told.
    pub(super) async fn step_kinds(&self) -> Vec<String> {
        let unlimited = Limit { queues: false, namespaces: false };
        let operator = Who::Holder(Scope::Admin, unlimited);
        let body = r#"{"steps": {"a": {}}}"#;
        let answer = self.request(operator, "POST", "/v1/workflows", body, None).await;
        let problem: Value = serde_json::from_str(&answer.body).unwrap();
        let advice = problem["problems"].to_string();
        let list = advice.split_once("exactly one of ").unwrap_or_else(|| panic!("{answer:?}")).1;
        let list = list.split('"').next().unwrap().replace(" and ", ", ").replace(" or ", ", ");
        list.split(", ").map(str::to_owned).collect()
    }

    pub(super) fn description(&self) -> Value {
        serde_json::from_str(&super::super::description()).unwrap()
    }
}
