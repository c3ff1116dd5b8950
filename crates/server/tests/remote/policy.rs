//! What each verb of `/v1/store` needs: a token's scope, and what is open to a token that is for some queues.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use windlass::access::Scope;
use windlass::verbs::{self, Call, ConnectionCall};
use windlass::{
    AccessToken, Claim, Command, Entity, Executions, Filter, Firing, Json, Missed, Name, NewAuditEntry,
    NewSchedule, NewSecret, NewTask, NewWorker, NewWorkflow, Overlap, Page, Source, Steering, TaskId,
    Template, Timestamp, Token, Turn, WorkerId, WorkflowFilter, WorkflowId,
};

use super::access::{call, create};
use super::kit::{Server, text};
use super::support::Place;

/// How a call treats a token that is for some queues only.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Is {
    /// Open if it is about a queue that is theirs.
    OfQueue,
    /// Open, and answered as far as it is theirs, if it is a list.
    Open,
    /// Not open: it is of no queue, or of all; or only the server does it.
    Closed,
}

/// What there is of one queue.
struct Scene {
    queue: Name,
    task: TaskId,
    worker: WorkerId,
    workflow: WorkflowId,
    step: TaskId,
}

impl Scene {
    fn set(place: &Place, queue: &str) -> Self {
        let task = place.submit(&["x", "--queue", queue, "--key", queue]);
        place.json(&["schedule", "set", &format!("s-{queue}"), "0 3 * * *", "x", "--queue", queue]);
        place.file("flow.yaml", format!("name: d-{queue}\nsteps: {{ a: {{ task: x, queue: {queue} }} }}\n"));
        place.json(&["definition", "apply", "flow.yaml"]);
        let started = place.json(&["workflow", "start", &format!("d-{queue}"), "--key", queue]);
        let workflow: WorkflowId = text(&started["id"]).parse().unwrap();
        Self {
            queue: Name::queue(queue).unwrap(),
            task: task.parse().unwrap(),
            worker: WorkerId::new(format!("worker-{queue}")).unwrap(),
            step: workflow.step(0),
            workflow,
        }
    }

    /// A worker that says it takes from a queue.
    fn new_worker(&self, queue: &Name) -> NewWorker {
        NewWorker {
            queues: vec![queue.clone()],
            kinds: vec![Name::stored("none")],
            ..NewWorker::new(self.worker.clone())
        }
    }

    fn named(&self, prefix: &str) -> Name {
        Name::stored(&format!("{prefix}-{}", self.queue))
    }

    fn new_task(&self) -> NewTask {
        NewTask {
            queue: self.queue.clone(),
            ..NewTask::new(windlass::task_id(), Name::stored("x"), Json::default())
        }
    }

    fn new_schedule(&self, queue: &Name) -> NewSchedule {
        NewSchedule {
            namespace: Name::default(),
            name: self.named("s"),
            cron: "0 4 * * *".into(),
            zone: "UTC".into(),
            template: Template::new(NewTask { queue: queue.clone(), ..self.new_task() }),
            missed: Missed::default(),
            overlap: Overlap::default(),
            paused: None,
            next_at: Timestamp::MAX,
        }
    }

    fn turn(command: Command) -> Call {
        verbs::TakeTurn { turn: Turn { commands: vec![command], claim: None, term: None } }.into()
    }

    fn token(&self) -> Token {
        Token { task: self.task, lease: 1, worker: self.worker.clone() }
    }

    /// Every call there is, about this queue.
    fn calls(&self, theirs: &Name) -> Vec<(Is, Call)> {
        use Is::{Closed, OfQueue, Open};
        let (namespace, entity) = (Name::default(), "a:1".parse::<Entity>().unwrap());
        let by = windlass::By::default;
        let claim = |queue: &Name| {
            Call::TakeTurn(verbs::TakeTurn {
                turn: Turn {
                    commands: Vec::new(),
                    claim: Some(Claim {
                        worker: self.worker.clone(),
                        namespace: Name::default(),
                        queues: vec![queue.clone()],
                        kinds: vec![Name::stored("none")],
                        limit: 1,
                    }),
                    term: None,
                },
            })
        };
        let listed = |queue: Option<&Name>, worker: Option<&WorkerId>| {
            verbs::ListTasks {
                filter: Filter { queue: queue.cloned(), worker: worker.cloned(), ..Filter::default() },
                page: Page::default(),
            }
            .into()
        };
        let source = Source::Named { name: self.named("d"), version: None };
        let start = |parent| {
            let new = NewWorkflow::new(windlass::workflow_id(), source.clone(), Json::default());
            verbs::Start { workflow: NewWorkflow { parent, ..new } }.into()
        };
        let definition = windlass::flow::read("name: e\nsteps: { a: { task: x, queue: mail-in } }").unwrap();
        let definition = definition.into_blueprint().into_definition();
        let executions = Executions {
            of_steps: true,
            since: Timestamp::MIN,
            limit: 1,
            namespace: Some(namespace.clone()),
            name: None,
            version: None,
            together: None,
        };
        let firing = Firing {
            namespace: namespace.clone(),
            name: self.named("s"),
            expected: Timestamp::MAX,
            next_at: Timestamp::MAX,
            last_at: None,
            tasks: vec![NewTask { queue: theirs.clone(), ..self.new_task() }],
            skipped: 0,
            left_out: None,
            error: None,
        };
        let entry = NewAuditEntry {
            actor: "a".into(),
            action: "b".into(),
            subject: "c".into(),
            reason: None,
            namespace: None,
        };
        vec![
            (Open, Call::Connection(ConnectionCall::Hello {})),
            (Open, verbs::Describe {}.into()),
            (Open, verbs::GetDue { limit: 0 }.into()),
            (Closed, verbs::GetDue { limit: 1 }.into()),
            (OfQueue, verbs::Submit { tasks: vec![self.new_task()] }.into()),
            (OfQueue, verbs::Register { worker: self.new_worker(&self.queue) }.into()),
            // Another's row would be changed.
            (OfQueue, verbs::Register { worker: self.new_worker(theirs) }.into()),
            (OfQueue, verbs::Heartbeat { worker: self.worker.clone(), held: Vec::new() }.into()),
            (OfQueue, claim(&self.queue)),
            (OfQueue, claim(theirs)),
            (OfQueue, Self::turn(Command::Start { token: self.token(), at: None })),
            (OfQueue, Self::turn(Command::Release { token: self.token(), note: None })),
            (OfQueue, Self::turn(Command::Cancel { task: self.task, by: by() })),
            (OfQueue, Self::turn(Command::Delete { task: self.task })),
            (OfQueue, verbs::Deregister { worker: self.worker.clone() }.into()),
            (Open, verbs::ListWorkers {}.into()),
            (Open, verbs::CountTasks {}.into()),
            (Open, verbs::ListPaused {}.into()),
            (Open, verbs::ListSchedules {}.into()),
            (
                Closed,
                verbs::Campaign { candidate: self.worker.clone(), lease: Duration::from_secs(1) }.into(),
            ),
            (Closed, verbs::Resign { candidate: self.worker.clone(), term: 1 }.into()),
            (Open, verbs::GetLeader {}.into()),
            (
                OfQueue,
                verbs::FindTask {
                    namespace: namespace.clone(),
                    kind: Name::stored("x"),
                    key: self.queue.to_string(),
                }
                .into(),
            ),
            (OfQueue, listed(Some(&self.queue), None)),
            (
                OfQueue,
                verbs::Pause { namespace: namespace.clone(), queue: self.queue.clone(), paused: false }
                    .into(),
            ),
            (Closed, listed(None, None)),
            (
                Closed,
                verbs::SetEntity { namespace: namespace.clone(), entity: entity.clone(), known: true }.into(),
            ),
            (Closed, verbs::HasEntity { namespace: namespace.clone(), entity }.into()),
            (Closed, verbs::ListEntities { namespace: namespace.clone(), after: None, limit: 1 }.into()),
            (OfQueue, verbs::SetSchedule { schedule: self.new_schedule(&self.queue) }.into()),
            (OfQueue, verbs::SetSchedule { schedule: self.new_schedule(theirs) }.into()),
            (OfQueue, verbs::FireSchedule { firing, term: None }.into()),
            (OfQueue, verbs::RemoveSchedule { namespace: namespace.clone(), name: self.named("s") }.into()),
            (Closed, verbs::Define { namespace: namespace.clone(), definition }.into()),
            (
                OfQueue,
                verbs::GetDefinition { namespace: namespace.clone(), name: self.named("d"), version: None }
                    .into(),
            ),
            (
                Closed,
                verbs::ListDefinitions { namespace: namespace.clone(), name: Some(self.named("d")) }.into(),
            ),
            (OfQueue, start(None)),
            (OfQueue, Call::Connection(ConnectionCall::GetWorkflow { id: self.workflow, known: None })),
            (
                OfQueue,
                verbs::FindWorkflow { namespace, name: self.named("d"), key: self.queue.to_string() }.into(),
            ),
            (OfQueue, verbs::GetWorkflow { id: self.workflow }.into()),
            (OfQueue, verbs::GetResults { tasks: vec![self.step] }.into()),
            (OfQueue, verbs::GetResults { tasks: vec![self.task] }.into()),
            (OfQueue, verbs::GetTask { id: self.step }.into()),
            (OfQueue, verbs::GetFacts { id: self.step }.into()),
            (Closed, verbs::Steer { workflow: self.workflow, steering: Steering::Pause, by: by() }.into()),
            (
                Closed,
                verbs::ListWorkflows { filter: WorkflowFilter::default(), page: Page::default() }.into(),
            ),
            (Closed, verbs::CountWorkflows {}.into()),
            (
                Closed,
                verbs::ListReadyWorkflows { namespace: Some(Name::default()), name: None, limit: 1 }.into(),
            ),
            (Closed, verbs::GetActivity { since: Timestamp::MIN }.into()),
            (Closed, verbs::ListSlowest { wanted: executions }.into()),
            (Closed, verbs::Reconcile { after: None, limit: 1 }.into()),
            (Closed, verbs::Prune { retention: windlass::Retention::default(), limit: 1 }.into()),
            (Closed, verbs::ReadEvents { after: None, limit: 1 }.into()),
            (Closed, verbs::ListAccessTokens {}.into()),
            (Closed, verbs::HadAccessTokens {}.into()),
            (
                Closed,
                verbs::RotateAccessToken {
                    name: Name::stored("mail"),
                    secret: NewSecret { id: "01234567".into(), digest: [0; 32] },
                    keep: Duration::ZERO,
                }
                .into(),
            ),
            (Closed, verbs::TouchAccessTokens { used: Vec::new() }.into()),
            (Closed, verbs::RevokeAccessToken { name: Name::stored("mail") }.into()),
            (Closed, verbs::Audit { entry }.into()),
            (Closed, verbs::ListAudit { page: Page::default() }.into()),
            (Closed, verbs::PutAccessToken { token: token() }.into()),
            (OfQueue, Self::turn(Command::Retry { task: self.task, force: false, by: by() })),
            (OfQueue, Self::turn(Command::Resolve { task: self.task, result: None, by: by() })),
            (OfQueue, Self::turn(Command::Skip { task: self.task, by: by() })),
            (OfQueue, Self::turn(Command::Postpone { task: self.task, delay: Duration::ZERO })),
            (OfQueue, Self::turn(Command::Promote { task: self.task })),
            (OfQueue, Self::turn(Command::Expire { task: self.task, lease: 9 })),
        ]
    }
}

fn token() -> AccessToken {
    AccessToken {
        name: Name::stored("more"),
        id: "0123abcd".into(),
        digest: [0; 32],
        scopes: [Scope::Admin].into(),
        queues: Vec::new(),
        namespaces: Vec::new(),
        groups: Vec::new(),
        created_at: Timestamp::MIN,
        created_by: None,
        expires_at: None,
        previous: Vec::new(),
        last_used_at: None,
    }
}

/// The same as by the other routes.
#[test]
fn every_call_keeps_to_the_queues_of_a_token() {
    let place = Place::new();
    let [all, mail] = [("all", "*"), ("mail", "mail-*")]
        .map(|(name, queues)| create(&place, name, &["--scope", "admin", "--queue", queues]));
    let scenes = ["mail-in", "other"].map(|queue| Scene::set(&place, queue));
    let server = Server::in_place(place, &[]);
    let ask = |token: &str, asked: &Call| call(&server, token, asked.clone());
    let [theirs, others] = &scenes;
    for scene in &scenes {
        assert_eq!(ask(&all, &verbs::Register { worker: scene.new_worker(&scene.queue) }.into()).status, 200);
    }
    for (is, call) in others.calls(&theirs.queue) {
        let answer = ask(&mail, &call);
        if is == Is::Open {
            assert_eq!(answer.status, 200, "{call:?}: {}", answer.body);
            assert!(!answer.body.contains("other"), "{call:?}: {}", answer.body);
        } else {
            answer.refused(403, "forbidden");
        }
    }
    assert_eq!(server.place.task(&others.task.to_string())["state"], "pending");
    assert!(ask(&all, &verbs::ListWorkers {}.into()).body.contains("worker-other"));
    for (is, call) in theirs.calls(&theirs.queue) {
        let answer = ask(&mail, &call);
        match is {
            Is::Closed => drop(answer.refused(403, "forbidden")),
            Is::OfQueue | Is::Open => assert_eq!(answer.status, 200, "{call:?}: {}", answer.body),
        }
    }
}

/// What is of a namespace is shown, found and changed by nobody whose token is for another.
#[test]
fn every_call_keeps_to_the_namespaces_of_a_token() {
    let place = Place::new();
    let [all, elsewhere] = ["*", "elsewhere"].map(|name| {
        create(&place, name.replace('*', "all").as_str(), &["--scope", "admin", "--allow-namespace", name])
    });
    let scene = Scene::set(&place, "mail-in");
    let server = Server::in_place(place, &[]);
    let register = verbs::Register { worker: scene.new_worker(&scene.queue) };
    assert_eq!(call(&server, &all, register).status, 200, "`*` is no limit");
    for (_, asked) in scene.calls(&scene.queue) {
        let answer = call(&server, &elsewhere, asked.clone());
        assert!(matches!(answer.status, 200 | 403), "{asked:?}: {}", answer.body);
        assert!(!answer.body.contains("mail-in"), "{asked:?}: {}", answer.body);
        assert!(!answer.body.contains(&scene.workflow.to_string()), "{asked:?}: {}", answer.body);
    }
    assert_eq!(server.place.task(&scene.task.to_string())["state"], "pending");
    let shown = call(&server, &all, verbs::CountWorkflows {});
    assert!(shown.body.contains("mail-in"), "{}", shown.body);
}

/// What a call is called in the table: its verb, and what of it decides.
fn label(call: &Call) -> String {
    let json = serde_json::to_value(call).unwrap();
    let (verb, body) = json.as_object().unwrap().iter().next().unwrap();
    let only = |value: &Value| match value {
        Value::Object(fields) => fields.keys().next().cloned().unwrap_or_default(),
        other => other.as_str().unwrap_or_default().to_owned(),
    };
    match call {
        Call::Connection(_) => format!("{verb}: {}", only(body)),
        Call::TakeTurn(turn) => match &turn.turn.claim {
            Some(_) => format!("{verb}: Claim"),
            None => format!("{verb}: {}", only(&body["turn"]["commands"][0])),
        },
        Call::Start(start) if start.workflow.parent.is_some() => format!("{verb}: below a step"),
        Call::ListTasks(list) if list.filter.worker.is_some() => format!("{verb}: of a worker"),
        Call::ListTasks(list) if list.filter.queue.is_some() => format!("{verb}: of a queue"),
        Call::GetDue(due) if due.limit == 0 => format!("{verb}: the time"),
        _ => verb.clone(),
    }
}

/// The table of docs/security.md. `WINDLASS_BLESS=1` writes it anew.
#[test]
fn the_table_of_verbs_and_scopes_is_what_the_server_does() {
    let place = Place::new();
    let tokens = ["read", "submit", "work", "admin"].map(|scope| create(&place, scope, &["--scope", scope]));
    let [outside, inside] = ["elsewhere", "default"]
        .map(|name| create(&place, name, &["--scope", "admin", "--allow-namespace", name]));
    let scene = Scene::set(&place, "mail-in");
    let server = Server::in_place(place, &[]);
    let mut rows = BTreeMap::new();
    // The one from elsewhere first: it must find what there is.
    let register = verbs::Register { worker: scene.new_worker(&scene.queue) };
    assert_eq!(call(&server, &tokens[3], register).status, 200);
    let calls = scene.calls(&Name::stored("mail-in"));
    let outside = calls.iter().map(|(_, asked)| call(&server, &outside, asked.clone()).status != 403);
    let outside: Vec<bool> = outside.collect();
    for ((is, asked), is_open_outside) in calls.into_iter().zip(outside) {
        let open = [is_open_outside, call(&server, &inside, asked.clone()).status != 403];
        let in_namespaces = match open {
            [false, true] => "its namespaces",
            [true, true] => "what is of its namespaces",
            [false, false] => "no",
            [true, false] => panic!("{asked:?} is open only elsewhere"),
        };
        let may = tokens.each_ref().map(|token| call(&server, token, asked.clone()).status != 403);
        let limited = match is {
            Is::OfQueue => "its queues",
            Is::Open => "what is of its queues",
            Is::Closed => "no",
        };
        let [read, submit, work, admin] = may.map(|may| if may { "yes" } else { "" });
        let row = format!("| {read} | {submit} | {work} | {admin} | {limited} | {in_namespaces} |");
        let before = rows.insert(label(&asked), row.clone());
        assert!(before.is_none_or(|before| before == row), "{}: two answers", label(&asked));
    }
    for (verb, _) in Call::VERBS {
        let is_it = |label: &String| label.split(':').next().unwrap().replace('_', "") == verb.to_lowercase();
        assert!(rows.keys().any(is_it), "{verb} is not in the table");
    }
    let head = "| verb | read | submit | work | admin | token for some queues | token for some namespaces |\n|---|---|---|---|---|---|---|\n";
    let table =
        rows.iter().fold(head.to_owned(), |table, (label, row)| table + &format!("| `{label}` {row}\n"));
    let path = format!("{}/../../docs/security.md", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("<!-- verbs -->\n").unwrap();
    let (known, after) = rest.split_once("<!-- end of verbs -->\n").unwrap();
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        std::fs::write(&path, format!("{before}<!-- verbs -->\n{table}<!-- end of verbs -->\n{after}"))
            .unwrap();
        return;
    }
    assert_eq!(
        known, table,
        "docs/security.md differs from what the server does; WINDLASS_BLESS=1 writes it anew"
    );
}
