//! Tokens: what each may do through a server, by whom it is then done, and what is written down.

use serde_json::{Value, json};
use windlass::access::Scope;
use windlass::remote::{Call, PROTOCOL, PROTOCOL_HEADER, STORE_PATH};
use windlass::{
    AccessToken, Claim, Command, Entity, Executions, Filter, Firing, Json, Missed, Name, NewAuditEntry,
    NewSchedule, NewTask, NewWorker, NewWorkflow, Overlap, Page, Source, Steering, TaskId, Template,
    Timestamp, Token, Turn, WorkerId, WorkflowFilter, WorkflowId,
};

use super::kit::{Server, list, text};
use super::support::Place;
use super::url;

fn create(place: &Place, name: &str, more: &[&str]) -> String {
    text(&place.json(&[&["token", "create", name], more].concat())["token"])
}

/// A place whose program has a token.
fn holder(server: &Server, token: &str) -> Place {
    super::through(server).with("WINDLASS_TOKEN", token)
}

#[test]
fn a_token_is_needed_and_may_come_from_a_file() {
    let place = Place::new();
    let token = create(&place, "admin", &["--scope", "admin"]);
    let server = Server::in_place(place, &[]);
    let bare = super::through(&server);
    bare.run(&["stats"]).told(1, "set WINDLASS_TOKEN");
    bare.run(&["submit", "x"]).told(1, "set WINDLASS_TOKEN");
    holder(&server, "wl_nonsense").run(&["stats"]).told(1, "not a token of Windlass");
    holder(&server, "wl_ nonsense").run(&["stats"]).told(2, "windlass token create");
    assert_eq!(holder(&server, &token).run(&["stats"]).code, 0);
    bare.file("token", format!("{token}\n"));
    let said = bare.run(&["stats", "--token-file", "token"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let wrong = holder(&server, "wl_nonsense");
    wrong.file("token", &token);
    assert_eq!(wrong.run(&["stats", "--token-file", "token"]).code, 0, "a file that is named is meant");
}

#[test]
fn each_scope_may_do_its_own() {
    let place = Place::new();
    let [read, submit, work, admin] =
        ["read", "submit", "work", "admin"].map(|scope| create(&place, scope, &["--scope", scope]));
    let flow = "name: f\nsteps: { a: { task: x } }\n";
    place.file("flow.yaml", flow);
    place.json(&["definition", "apply", "flow.yaml"]);
    let server = Server::in_place(place, &[]);
    let id = server.place.submit(&["x"]);
    for (token, may) in [(&read, "read"), (&submit, "submit"), (&work, "work"), (&admin, "admin")] {
        let place = holder(&server, token);
        place.file("flow.yaml", flow);
        for (scope, command) in [
            ("read", &["task", "list"][..]),
            ("read", &["task", "get", &*id]),
            ("read", &["why", &*id]),
            ("read", &["stats"]),
            ("read", &["stats", "--health"]),
            ("read", &["queue", "list"]),
            ("read", &["workflow", "list"]),
            ("read", &["schedule", "list"]),
            ("read", &["entity", "list"]),
            ("read", &["worker", "list"]),
            ("submit", &["submit", "y"]),
            ("submit", &["workflow", "start", "--file", "flow.yaml"]),
            ("work", &["work", "--exec", "none=true", "--queue", "none", "--no-lead"]),
            ("admin", &["task", "cancel", &*id]),
            ("admin", &["task", "retry", &*id]),
            ("admin", &["queue", "pause", "q"]),
            ("admin", &["queue", "resume", "q"]),
            ("admin", &["schedule", "set", "s", "0 3 * * *", "x"]),
            ("admin", &["entity", "add", "a:1"]),
            ("admin", &["definition", "apply", "flow.yaml"]),
            ("admin", &["prune", "--keep", "completed=1d"]),
            ("admin", &["token", "list"]),
            ("admin", &["token", "create", "more", "--scope", "admin"]),
            ("admin", &["token", "revoke", "more"]),
            ("admin", &["audit"]),
        ] {
            if scope == "work" && (may == "work" || may == "admin") {
                // It would go on until it is stopped.
                let mut worker = place.work(&command[1..]);
                worker.signal(rustix::process::Signal::TERM);
                assert_eq!(worker.end().code, 0, "{may}");
                continue;
            }
            let said = place.run(command);
            if may == "admin" || may == scope {
                assert_eq!(said.code, 0, "{may} {command:?}: {}", said.err);
            } else {
                assert_eq!(said.code, 1, "{may} {command:?}: {}", said.err);
                assert!(
                    said.err.contains(&format!("the token {may:?} is for {may}; this needs ")),
                    "{may} {command:?}: {}",
                    said.err
                );
            }
        }
    }
}

#[test]
fn a_token_for_some_queues_sees_and_does_no_more() {
    let place = Place::new();
    let mail = create(&place, "mail", &["--scope", "admin", "--queue", "mail-*"]);
    let server = Server::in_place(place, &[]);
    let other = server.place.submit(&["x", "--key", "k"]);
    server.place.json(&["schedule", "set", "theirs", "0 3 * * *", "x"]);
    let place = holder(&server, &mail);
    let id = place.submit(&["x", "--queue", "mail-in"]);
    let refused = "the token \"mail\" is for the queues mail-*, and not for ";
    for command in [
        &["submit", "x"][..],
        &["task", "get", &*other],
        &["why", &*other],
        &["task", "list"],
        &["task", "list", "--queue", "default"],
        &["task", "cancel", &*other],
        &["task", "delete", &*other],
        &["queue", "pause", "default"],
        &["schedule", "set", "s", "0 3 * * *", "x"],
        &["schedule", "set", "theirs", "0 3 * * *", "x", "--queue", "mail-in"],
        &["stats"],
        &["workflow", "list"],
        &["entity", "list"],
        &["definition", "list"],
        &["audit"],
        &["prune", "--keep", "completed=1d"],
        &["token", "create", "all", "--scope", "admin"],
        &["work", "--exec", "x=true"],
    ] {
        let said = place.run(command);
        assert_eq!(said.code, 1, "{command:?}: {}{}", said.out, said.err);
        assert!(said.err.contains(refused), "{command:?}: {}", said.err);
    }
    place.file("batch.jsonl", "{\"kind\": \"x\", \"queue\": \"mail-in\"}\n{\"kind\": \"x\"}\n");
    place.run(&["submit", "--batch", "@batch.jsonl"]).told(1, refused);
    place.file("flow.yaml", "name: f\nsteps: { a: { task: x, queue: mail-in }, b: { task: x } }\n");
    place.run(&["workflow", "start", "--file", "flow.yaml"]).told(1, refused);
    for command in [
        &["task", "get", &*id][..],
        &["task", "list", "--queue", "mail-in"],
        &["queue", "pause", "mail-in"],
        &["queue", "resume", "mail-in"],
        &["schedule", "set", "own", "0 3 * * *", "later", "--queue", "mail-in"],
        &["schedule", "pause", "own"],
        &["schedule", "run", "own"],
        &["schedule", "remove", "own"],
    ] {
        assert_eq!(place.run(command).code, 0, "{command:?}");
    }
    assert_eq!(server.place.task(&other)["state"], "pending");
    // Lists of what is of queues are shown in part.
    for command in [["queue", "list"], ["worker", "list"], ["schedule", "list"]] {
        let said = place.run(&command);
        assert_eq!(
            (said.code, said.out.contains("default")),
            (0, false),
            "{command:?}: {}{}",
            said.out,
            said.err
        );
    }
    let worker = ["--exec", "x=echo 1", "--queue", "mail-in"];
    let mut running = place.work(&worker);
    running.until("completed");
    running.signal(rustix::process::Signal::TERM);
    assert_eq!(running.end().out, "1 completed, 0 failed attempts, 0 others\n");
    assert_eq!(place.task(&id)["result"], 1);
}

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

    fn new_schedule(&self, queue: &Name) -> Box<NewSchedule> {
        Box::new(NewSchedule {
            namespace: Name::default(),
            name: self.named("s"),
            cron: "0 4 * * *".into(),
            zone: "UTC".into(),
            template: Template::new(NewTask { queue: queue.clone(), ..self.new_task() }),
            missed: Missed::default(),
            overlap: Overlap::default(),
            paused: None,
            next_at: Timestamp::MAX,
        })
    }

    fn turn(command: Command) -> Call {
        Call::Turn { turn: Turn { commands: vec![command], claim: None, term: None } }
    }

    fn token(&self) -> Token {
        Token { task: self.task, lease: 1, worker: self.worker.clone() }
    }

    /// Every call there is, about this queue.
    fn calls(&self, theirs: &Name) -> Vec<(Is, Call)> {
        use Is::{Closed, OfQueue, Open};
        let (namespace, entity) = (Name::default(), "a:1".parse::<Entity>().unwrap());
        let by = windlass::By::default;
        let claim = |queue: &Name| Call::Turn {
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
        };
        let listed = |queue: Option<&Name>, worker: Option<&WorkerId>| Call::Tasks {
            filter: Filter { queue: queue.cloned(), worker: worker.cloned(), ..Filter::default() },
            page: Page::default(),
        };
        let source = Source::Named { name: self.named("d"), version: None };
        let start = |parent| {
            let new = NewWorkflow::new(windlass::workflow_id(), source.clone(), Json::default());
            Call::Start { workflow: Box::new(NewWorkflow { parent, ..new }) }
        };
        let definition = windlass::flow::read("name: e\nsteps: { a: { task: x, queue: mail-in } }").unwrap();
        let definition = definition.into_blueprint().into_definition();
        let executions = Executions {
            of_steps: true,
            since: Timestamp::MIN,
            limit: 1,
            namespace: None,
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
            error: None,
        };
        let entry =
            NewAuditEntry { actor: "a".into(), action: "b".into(), subject: "c".into(), reason: None };
        vec![
            (Open, Call::Hello {}),
            (Open, Call::Describe {}),
            (Open, Call::Due { limit: 0 }),
            (Closed, Call::Due { limit: 1 }),
            (OfQueue, Call::Submit { tasks: vec![self.new_task()] }),
            (OfQueue, Call::Register { worker: self.new_worker(&self.queue) }),
            // Another's row would be changed.
            (OfQueue, Call::Register { worker: self.new_worker(theirs) }),
            (OfQueue, Call::Heartbeat { worker: self.worker.clone(), held: Vec::new() }),
            (OfQueue, claim(&self.queue)),
            (OfQueue, claim(theirs)),
            (OfQueue, Self::turn(Command::Start { token: self.token(), at: None })),
            (OfQueue, Self::turn(Command::Release { token: self.token(), note: None })),
            (OfQueue, Self::turn(Command::Cancel { task: self.task, by: by() })),
            (OfQueue, Self::turn(Command::Delete { task: self.task })),
            (OfQueue, Call::Deregister { worker: self.worker.clone() }),
            (Open, Call::Workers {}),
            (Open, Call::Counts {}),
            (Open, Call::Paused {}),
            (Open, Call::Schedules {}),
            (
                Closed,
                Call::Campaign { candidate: self.worker.clone(), lease: std::time::Duration::from_secs(1) },
            ),
            (Closed, Call::Resign { candidate: self.worker.clone(), term: 1 }),
            (Open, Call::Leader {}),
            (
                OfQueue,
                Call::Find {
                    namespace: namespace.clone(),
                    kind: Name::stored("x"),
                    key: self.queue.to_string(),
                },
            ),
            (OfQueue, listed(Some(&self.queue), None)),
            (OfQueue, Call::Pause { namespace: namespace.clone(), queue: self.queue.clone(), paused: false }),
            (Closed, listed(None, None)),
            (Closed, Call::SetEntity { namespace: namespace.clone(), entity: entity.clone(), known: true }),
            (Closed, Call::HasEntity { namespace: namespace.clone(), entity }),
            (Closed, Call::Entities { namespace: namespace.clone(), after: None, limit: 1 }),
            (OfQueue, Call::SetSchedule { schedule: self.new_schedule(&self.queue) }),
            (OfQueue, Call::SetSchedule { schedule: self.new_schedule(theirs) }),
            (OfQueue, Call::Fire { firing, term: None }),
            (OfQueue, Call::RemoveSchedule { namespace: namespace.clone(), name: self.named("s") }),
            (Closed, Call::Define { namespace: namespace.clone(), definition: Box::new(definition) }),
            (
                OfQueue,
                Call::Definition { namespace: namespace.clone(), name: self.named("d"), version: None },
            ),
            (Closed, Call::Definitions { namespace: namespace.clone(), name: Some(self.named("d")) }),
            (OfQueue, start(None)),
            (OfQueue, Call::Workflow { id: self.workflow, known: None }),
            (OfQueue, Call::FindWorkflow { namespace, name: self.named("d"), key: self.queue.to_string() }),
            (OfQueue, Call::Results { tasks: vec![self.step] }),
            (OfQueue, Call::Results { tasks: vec![self.task] }),
            (OfQueue, Call::Task { id: self.step }),
            (OfQueue, Call::Facts { id: self.step }),
            (Closed, Call::Steer { workflow: self.workflow, steering: Steering::Pause, by: by() }),
            (Closed, Call::Workflows { filter: WorkflowFilter::default(), page: Page::default() }),
            (Closed, Call::WorkflowCounts {}),
            (Closed, Call::ReadyWorkflows { namespace: None, name: None, limit: 1 }),
            (Closed, Call::Activity { since: Timestamp::MIN }),
            (Closed, Call::Executions { wanted: executions }),
            (Closed, Call::Reconcile { after: None, limit: 1 }),
            (Closed, Call::Prune { retention: windlass::Retention::default(), limit: 1 }),
            (Closed, Call::Events { after: None, limit: 1 }),
            (Closed, Call::AccessTokens {}),
            (Closed, Call::RevokeAccessToken { name: Name::stored("mail") }),
            (Closed, Call::Audit { entry }),
            (Closed, Call::Audits { page: Page::default() }),
            (Closed, Call::PutAccessToken { token: token() }),
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
        created_at: Timestamp::MIN,
        created_by: None,
        expires_at: None,
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
    let ask = |token: &str, call: &Call| {
        let bearer = format!("Bearer {token}");
        let protocol = PROTOCOL.to_string();
        let headers = [
            ("content-type", "application/json"),
            ("authorization", &*bearer),
            (PROTOCOL_HEADER, &*protocol),
        ];
        server.ask_with("POST", STORE_PATH, &headers, Some(&serde_json::to_vec(call).unwrap()))
    };
    let [theirs, others] = &scenes;
    for scene in &scenes {
        assert_eq!(ask(&all, &Call::Register { worker: scene.new_worker(&scene.queue) }).status, 200);
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
    assert!(ask(&all, &Call::Workers {}).body.contains("worker-other"));
    for (is, call) in theirs.calls(&theirs.queue) {
        let answer = ask(&mail, &call);
        match is {
            Is::Closed => drop(answer.refused(403, "forbidden")),
            Is::OfQueue | Is::Open => assert_eq!(answer.status, 200, "{call:?}: {}", answer.body),
        }
    }
}

#[test]
fn what_is_done_is_done_by_the_token_and_written_down() {
    let place = Place::new();
    let token = create(&place, "ops", &["--scope", "admin"]);
    let server = Server::in_place(place, &[]);
    let ops = holder(&server, &token);
    let id = ops.submit(&["x"]);
    ops.json(&["task", "cancel", &id, "--reason", "wrong customer", "--actor", "ada"]);
    ops.json(&["task", "retry", &id]);
    ops.json(&["queue", "pause", "mail"]);
    ops.json(&["entity", "add", "a:1"]);
    ops.json(&["schedule", "set", "s", "0 3 * * *", "x"]);
    ops.json(&["schedule", "run", "s"]);
    ops.json(&["schedule", "remove", "s"]);
    ops.json(&["token", "create", "ci", "--scope", "read"]);
    ops.json(&["token", "revoke", "ci"]);
    ops.file("flow.yaml", "name: f\nsteps: { a: { task: y } }\n");
    ops.json(&["definition", "apply", "flow.yaml"]);
    let flow = text(&ops.json(&["workflow", "start", "f"])["id"]);
    ops.json(&["workflow", "pause", &flow, "--reason", "later"]);
    ops.json(&["prune", "--keep", "completed=1d"]);
    let task = server.place.task(&id);
    let actors: Vec<&Value> =
        task["history"].as_array().unwrap().iter().map(|entry| &entry["actor"]).collect();
    assert_eq!(actors, [&json!("ops for grace"), &json!("ops for ada"), &json!("ops for grace")]);
    let entries = list(&ops.json(&["audit"])["entries"]);
    let told: Vec<String> = entries
        .iter()
        .rev()
        .skip(1) // The token that was made on the file itself.
        .map(|entry| {
            format!("{} {} {}", text(&entry["actor"]), text(&entry["action"]), text(&entry["subject"]))
        })
        .collect();
    let expected = [
        format!("ops for ada task.cancel {id}"),
        format!("ops for grace task.retry {id}"),
        "ops queue.pause default/mail".into(),
        "ops entity.register a:1".into(),
        "ops schedule.set default/s".into(),
        "ops schedule.run default/s".into(),
        "ops schedule.remove default/s".into(),
        "ops for grace token.create ci".into(),
        "ops token.revoke ci".into(),
        "ops definition.apply f".into(),
        format!("ops for grace workflow.pause {flow}"),
        "ops tasks.prune all".into(),
    ];
    assert_eq!(told, expected);
    assert_eq!(
        entries.iter().find(|entry| entry["action"] == "task.cancel").unwrap()["reason"],
        "wrong customer"
    );
}

/// Too many requests in a second are told apart from a server that is gone.
#[test]
fn who_asks_too_often_or_too_much_is_told() {
    let server = Server::with(&["--rate-limit", "1", "--max-body-bytes", "2000"]);
    let place = super::through(&server);
    place.run(&["stats"]).told(1, "more than 1 requests in a second");
    let server = Server::with(&["--max-body-bytes", "2000"]);
    let place = super::through(&server);
    let long = format!("\"{}\"", "x".repeat(3000));
    place.run(&["submit", "x", &long]).told(1, "--max-body-bytes");
    assert_eq!(place.tasks().len(), 0);
    let _ = url(&server);
}
