//! Tokens: what each may do through a server, by whom it is then done, and what is written down.

use serde_json::{Value, json};

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
    ] {
        assert_eq!(place.run(command).code, 0, "{command:?}");
    }
    assert_eq!(server.place.task(&other)["state"], "pending");
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
        format!("ops task.cancel {id}"),
        format!("ops task.retry {id}"),
        "ops queue.pause default/mail".into(),
        "ops entity.register a:1".into(),
        "ops schedule.set default/s".into(),
        "ops schedule.run default/s".into(),
        "ops schedule.remove default/s".into(),
        "ops token.create ci".into(),
        "ops token.revoke ci".into(),
        "ops definition.apply f".into(),
        format!("ops workflow.pause {flow}"),
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
