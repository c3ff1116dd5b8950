//! A worker that works through `/v1/store` is its id and its secret, as one that works by the public routes.

use rustix::process::Signal;
use serde_json::json;
use windlass::verbs::{self, Call};
use windlass::{
    Claim, Command, Filter, Json, Name, NewWorker, NewWorkflow, Outcome, Page, Source, TaskId, Token, Turn,
    WorkerId,
};

use super::access::{call_as, create};
use super::kit::{Server, text};
use super::support::Place;

const MINE: &str = "wlw_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const THEIRS: &str = "wlw_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

fn me() -> WorkerId {
    WorkerId::new("me").unwrap()
}

fn register() -> Call {
    let worker = NewWorker { kinds: vec![Name::stored("x")], ..NewWorker::new(me()) };
    verbs::Register { worker }.into()
}

fn claim() -> Claim {
    let (queues, kinds) = (vec![Name::default()], vec![Name::stored("x")]);
    Claim { worker: me(), namespace: Name::default(), queues, kinds, limit: 1 }
}

fn turn(commands: Vec<Command>, claim: Option<Claim>) -> Call {
    verbs::TakeTurn { turn: Turn { commands, claim, term: None } }.into()
}

fn listed(queue: Option<Name>) -> Call {
    let filter = Filter { worker: Some(me()), queue, ..Filter::default() };
    verbs::ListTasks { filter, page: Page::default() }.into()
}

/// What only the worker may do.
fn acts(task: TaskId) -> Vec<Call> {
    let token = || Token { task, lease: 1, worker: me() };
    let source = Source::Named { name: Name::stored("f"), version: None };
    let below = NewWorkflow::new(windlass::workflow_id(), source, Json::default());
    let completed = Outcome::Completed { result: Json::default() };
    vec![
        verbs::Heartbeat { worker: me(), held: vec![(task, 1)] }.into(),
        turn(vec![Command::Finish { token: token(), outcome: completed, started_at: None }], None),
        turn(vec![Command::Start { token: token(), at: None }], None),
        turn(vec![Command::Release { token: token(), note: None }], None),
        turn(vec![Command::Claim { task, worker: me() }], None),
        turn(Vec::new(), Some(claim())),
        verbs::Start { workflow: NewWorkflow { parent: Some(token()), ..below } }.into(),
        verbs::Deregister { worker: me() }.into(),
        listed(None),
        listed(Some(Name::default())),
    ]
}

#[test]
fn another_token_for_the_same_queue_cannot_act_for_a_worker() {
    let place = Place::new();
    let [mine, theirs] = ["mine", "theirs"].map(|name| create(&place, name, &["--scope", "work"]));
    let [read, admin] = ["read", "admin"].map(|scope| create(&place, scope, &["--scope", scope]));
    let id = place.submit(&["x"]);
    let server = Server::in_place(place, &[]);
    let task: TaskId = id.parse().unwrap();
    call_as(&server, &mine, "", register()).refused(403, "worker_secret_required");
    call_as(&server, &mine, "wlw_x", register()).refused(400, "bad_request");
    assert!(call_as(&server, &mine, MINE, register()).told(200)["answer"]["Ok"].is_object());
    let claimed = call_as(&server, &mine, MINE, turn(Vec::new(), Some(claim()))).told(200);
    assert_eq!(claimed["answer"]["Ok"]["claimed"]["Ok"][0]["task"]["id"], json!(id), "{claimed}");
    for token in [&theirs, &mine] {
        for (secret, code) in [("", "worker_secret_required"), (THEIRS, "wrong_worker_secret")] {
            for act in acts(task) {
                let shown = format!("{act:?}");
                let refused = call_as(&server, token, secret, act);
                assert!(!refused.body.contains("bbbb"), "the secret is not quoted: {}", refused.body);
                assert_eq!(refused.status, 403, "{shown}: {}", refused.body);
                refused.refused(403, code);
            }
        }
        let over = call_as(&server, token, THEIRS, register()).told(200);
        assert_eq!(over["answer"]["Err"]["Rejected"]["WrongWorkerSecret"]["worker"], "me", "{over}");
    }
    // A digest that is sent is not believed.
    let forged = json!({ "register": { "worker": { "id": "me", "host": "", "version": "", "pool_size": 1, "namespace": "default",
        "queues": ["default"], "kinds": ["x"], "dead_after": { "secs": 30, "nanos": 0 }, "secret": null } } });
    let over = call_as(&server, &theirs, THEIRS, serde_json::from_value::<Call>(forged).unwrap()).told(200);
    assert!(over["answer"]["Err"].is_object(), "{over}");
    assert_eq!(server.place.task(&id)["state"], "claimed");
    // Reading takes a token for that, or the secret; and an operator may remove it, and no more.
    assert!(call_as(&server, &read, "", listed(None)).told(200)["answer"]["Ok"].is_object());
    assert!(call_as(&server, &mine, MINE, listed(None)).told(200)["answer"]["Ok"].is_object());
    call_as(&server, &admin, "", acts(task).remove(1)).refused(403, "worker_secret_required");
    let workers = call_as(&server, &read, "", verbs::ListWorkers {});
    assert!(workers.body.contains("\"me\"") && !workers.body.contains("secret"), "{}", workers.body);
    let mut own = acts(task);
    let finished = call_as(&server, &mine, MINE, own.remove(1)).told(200);
    assert_eq!(finished["answer"]["Ok"]["receipts"][0]["Ok"]["state"], "completed", "{finished}");
    assert!(
        call_as(&server, &admin, "", verbs::Deregister { worker: me() }).told(200)["answer"]["Ok"].is_null()
    );
    // What the store has forgotten is told as the store tells it, so that a worker registers again.
    let unknown = call_as(&server, &mine, MINE, own.remove(0)).told(200);
    assert_eq!(unknown["answer"]["Err"]["Rejected"]["InvalidWorker"]["worker"], "me", "{unknown}");
}

/// A worker that was forgotten registers again with its secret, and goes on.
#[test]
fn a_worker_that_an_operator_removed_registers_again() {
    let place = Place::new();
    let [work, admin] = ["work", "admin"].map(|scope| create(&place, scope, &["--scope", scope]));
    let id = place.submit(&["x", "--max-attempts", "5"]);
    let server = Server::in_place(place, &[]);
    let here = super::through(&server).with("WINDLASS_TOKEN", &*work);
    let program = "x=until [ -e go ]; do sleep 0.05; done; echo 1";
    let mut worker = here.work(&["--exec", program, "--dead-after", "3s"]);
    let state = || text(&server.place.task(&id)["state"]);
    while state() != "running" {
        std::thread::yield_now();
    }
    let itself = WorkerId::new(text(&server.place.task(&id)["worker_id"])).unwrap();
    let remove = || verbs::Deregister { worker: itself.clone() };
    call_as(&server, &work, "", remove()).refused(403, "worker_secret_required");
    call_as(&server, &work, THEIRS, remove()).refused(403, "wrong_worker_secret");
    assert_eq!(state(), "running");
    assert!(call_as(&server, &admin, "", remove()).told(200)["answer"]["Ok"].is_null());
    here.file("go", "");
    while state() != "completed" {
        std::thread::yield_now();
    }
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().code, 0);
}
