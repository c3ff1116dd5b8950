//! Tokens: what each may do through a server, by whom it is then done, and what is written down.

use serde_json::{Value, json};
use windlass::remote::{PROTOCOL, PROTOCOL_HEADER, STORE_PATH};
use windlass::verbs::{self, Call};
use windlass::{
    Command, Filter, Json, Name, NewWorker, NewWorkflow, Page, Source, TaskId, Token, Turn, WorkerId,
    WorkflowId,
};

use super::kit::{Answer, SECRET, SECRET_HEADER, Server, list, text};
use super::support::Place;
use super::url;

pub(super) fn create(place: &Place, name: &str, more: &[&str]) -> String {
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

/// A token is a password: a file of it that every user of the machine can read is used, with a warning.
#[cfg(unix)]
#[test]
fn a_token_file_that_everybody_can_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let token = create(&place, "admin", &["--scope", "admin"]);
    let server = Server::in_place(place, &[]);
    let bare = super::through(&server);
    let file = bare.file("token", &token);
    for (mode, is_warned_of) in [(0o644, true), (0o604, true), (0o640, false), (0o600, false)] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let said = bare.run(&["stats", "--token-file", "token"]);
        assert_eq!(said.code, 0, "{}", said.err);
        let is_told =
            said.err.contains("every user of this machine can read the token file token; chmod 600");
        assert_eq!(is_told, is_warned_of, "{mode:o}: {}", said.err);
        assert!(!said.err.contains(&token));
    }
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

/// A program of an ad hoc workflow is defined by who starts it, and runs on the workers' machines.
#[test]
fn programs_are_defined_by_operators_only() {
    let place = Place::new();
    let [submit, admin] = ["submit", "admin"].map(|scope| create(&place, scope, &["--scope", scope]));
    let server = Server::in_place(place, &[]);
    let start = |token: &str| {
        let place = holder(&server, token);
        place.file("flow.yaml", "name: f\nsteps: { a: { run: id } }\n");
        place.run(&["workflow", "start", "--file", "flow.yaml"])
    };
    start(&submit).told(1, "the step \"a\" is a program");
    assert_eq!(server.place.json(&["workflow", "list"])["workflows"], json!([]), "nothing was started");
    assert_eq!(start(&admin).code, 0);
}

/// A call of `/v1/store`, made with a token.
pub(super) fn call(server: &Server, token: &str, call: impl Into<Call>) -> Answer {
    call_as(server, token, SECRET, call)
}

/// With the secret of a worker, or without one if it is empty.
pub(super) fn call_as(server: &Server, token: &str, secret: &str, call: impl Into<Call>) -> Answer {
    let (bearer, protocol) = (format!("Bearer {token}"), PROTOCOL.to_string());
    let headers = [
        ("content-type", "application/json"),
        ("authorization", &*bearer),
        (PROTOCOL_HEADER, &*protocol),
        (SECRET_HEADER, secret),
    ];
    server.ask_with("POST", STORE_PATH, &headers, Some(&serde_json::to_vec(&call.into()).unwrap()))
}

/// A named workflow is started by a token for `submit`, here as by the public route.
#[test]
fn a_token_for_submit_starts_a_stored_definition() {
    let place = Place::new();
    let submit = create(&place, "submit", &["--scope", "submit"]);
    place.file("flow.yaml", "name: f\nsteps: { a: { task: x } }\n");
    place.json(&["definition", "apply", "flow.yaml"]);
    let server = Server::in_place(place, &[]);
    let said = holder(&server, &submit).run(&["workflow", "start", "f"]);
    assert_eq!(said.code, 0, "{}", said.err);
}

/// What an operator does to a step is audited as such, whichever way it was asked for.
#[test]
fn a_step_is_audited_as_a_step() {
    let place = Place::new();
    let admin = create(&place, "admin", &["--scope", "admin"]);
    place.file("flow.yaml", "name: f\nsteps: { a: { task: x } }\n");
    let workflow = text(&place.json(&["workflow", "start", "--file", "flow.yaml"])["id"]);
    let lone = place.submit(&["x"]);
    let server = Server::in_place(place, &[]);
    let step = workflow.parse::<WorkflowId>().unwrap().step(0);
    let place = holder(&server, &admin);
    let bearer = format!("Bearer {admin}");
    let headers = [("content-type", "application/json"), ("authorization", &*bearer)];
    let path = format!("/v1/workflows/{workflow}/steps/a/retry");
    server.ask_with("POST", &path, &headers, Some(b"{}")).told(200);
    for task in [&*step.to_string(), &*lone] {
        place.json(&["task", "cancel", task]);
    }
    let audit = place.json(&["audit"]);
    let entries: Vec<_> =
        list(&audit["entries"]).iter().map(|one| (text(&one["action"]), text(&one["subject"]))).collect();
    let of_step = format!("{workflow}/a");
    let expected = [("task.cancel", &lone), ("step.cancel", &of_step), ("step.retry", &of_step)];
    assert_eq!(entries[..3], expected.map(|(action, subject)| (action.to_owned(), subject.clone())));
}

/// A worker that is limited to a queue may list what it holds, by both ways in.
#[test]
fn a_limited_worker_lists_what_it_holds() {
    let place = Place::new();
    let mail = create(&place, "mail", &["--scope", "read,work", "--queue", "mail-*"]);
    let server = Server::in_place(place, &[]);
    let worker =
        NewWorker { queues: vec![Name::stored("mail-in")], ..NewWorker::new(WorkerId::new("w").unwrap()) };
    assert_eq!(call(&server, &mail, verbs::Register { worker }).status, 200);
    let filter = Filter { worker: Some(WorkerId::new("w").unwrap()), ..Filter::default() };
    assert_eq!(call(&server, &mail, verbs::ListTasks { filter, page: Page::default() }).status, 200);
    let headers = [("authorization", &*format!("Bearer {mail}"))];
    server.ask_with("GET", "/v1/tasks?worker=w", &headers, None).told(200);
    server.ask_with("GET", "/v1/tasks", &headers, None).refused(403, "forbidden");
}

/// A worker starts below a step what the step names, and under its token's name.
#[test]
fn below_a_step_only_its_own_workflow_is_started() {
    let place = Place::new();
    let work = create(&place, "work", &["--scope", "work"]);
    for name in ["inner", "other"] {
        place.file("flow.yaml", format!("name: {name}\nsteps: {{ a: {{ task: x }} }}\n"));
        place.json(&["definition", "apply", "flow.yaml"]);
    }
    place.file("outer.yaml", "name: outer\nsteps: { child: { workflow: inner }, plain: { task: x } }\n");
    let outer = text(&place.json(&["workflow", "start", "--file", "outer.yaml"])["id"]);
    let server = Server::in_place(place, &[]);
    let id = WorkerId::new("w").unwrap();
    let kinds = vec![Name::stored(windlass::WORKFLOW), Name::stored("x")];
    let worker = NewWorker { kinds, ..NewWorker::new(id.clone()) };
    assert_eq!(call(&server, &work, verbs::Register { worker }).status, 200);
    let steps = [0, 1].map(|step| outer.parse::<WorkflowId>().unwrap().step(step));
    let commands = steps.map(|task| Command::Claim { task, worker: id.clone() }).into();
    assert_eq!(
        call(&server, &work, verbs::TakeTurn { turn: Turn { commands, ..Turn::default() } }).status,
        200
    );
    let start = |task: TaskId, namespace: &str, name: &str, version: Option<&str>| {
        let source = Source::Named { name: Name::stored(name), version: version.map(Into::into) };
        let workflow = NewWorkflow {
            namespace: Name::stored(namespace),
            parent: Some(Token { task, lease: 1, worker: id.clone() }),
            actor: Some("ada".into()),
            ..NewWorkflow::new(windlass::workflow_id(), source, Json::default())
        };
        call(&server, &work, verbs::Start { workflow })
    };
    let [child, plain] = steps;
    start(child, "default", "other", None).refused(403, "forbidden");
    start(child, "elsewhere", "inner", None).refused(403, "forbidden");
    start(child, "default", "inner", Some("7")).refused(403, "forbidden");
    start(plain, "default", "inner", None).refused(403, "forbidden");
    let workflows = || list(&server.place.json(&["workflow", "list"])["workflows"]).len();
    assert_eq!(workflows(), 1, "nothing was started");
    let started = start(child, "default", "inner", None).told(200)["answer"]["Ok"].clone();
    let seen = server.place.json(&["workflow", "get", &text(&started["id"])]);
    assert!(seen.to_string().contains("work for ada"), "{seen}");
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
