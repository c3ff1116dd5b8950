//! Turns for workers elsewhere: what they are given is whole, or given back.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use support::{Fault, Plan, down, ms, pass, planned, secs, state};
use windlass::{
    Claim, Client, Command, Handed, Name, NewWorker, Outcome, State, TaskId, Token, Turn, TurnedElsewhere,
    Windlass, WorkerId, flow, limits,
};

/// A worker that lives somewhere else.
struct Worker {
    client: Client,
    id: WorkerId,
    kinds: Vec<Name>,
}

impl Worker {
    async fn register(windlass: &Windlass) -> Self {
        let (id, kinds) = (windlass::worker_id(), vec![Name::kind("work").unwrap()]);
        let new = NewWorker { kinds: kinds.clone(), dead_after: secs(3600), ..NewWorker::new(id.clone()) };
        windlass.store().register(new).await.unwrap();
        Self { client: windlass.client(), id, kinds }
    }

    async fn turn(&self, commands: Vec<Command>) -> TurnedElsewhere {
        let claim = Claim {
            worker: self.id.clone(),
            namespace: Name::default(),
            queues: vec![Name::default()],
            kinds: self.kinds.clone(),
            limit: limits::BATCH,
        };
        self.client.turn_elsewhere(Turn { commands, claim: Some(claim), term: None }).await.unwrap()
    }

    async fn claim(&self) -> Vec<Handed> {
        self.turn(Vec::new()).await.handed.unwrap()
    }

    fn complete(&self, handed: &Handed, result: &Value) -> Command {
        let token =
            Token { task: id(handed), lease: handed.claimed.task.status.lease, worker: self.id.clone() };
        let result = windlass::Json::result(&result.to_string()).unwrap();
        Command::Finish { token, outcome: Outcome::Completed { result }, started_at: None }
    }
}

fn id(handed: &Handed) -> TaskId {
    handed.claimed.task.id
}

fn name(handed: &Handed) -> &str {
    &handed.place.as_ref().unwrap().name
}

/// What a step is told of its parents.
fn results(handed: &Handed) -> Vec<(&str, Option<&str>)> {
    let results = &handed.place.as_ref().unwrap().results;
    results.iter().map(|(name, result)| (&**name, result.as_ref().map(windlass::Json::as_str))).collect()
}

async fn start(windlass: &Windlass, steps: &str) {
    let text = format!("name: w\nsteps:\n{steps}");
    let definition = flow::check(&text).unwrap().0.definition().clone();
    windlass.client().start_ad_hoc(definition).await.unwrap();
}

/// A workflow whose first step is done, with the plan of its store.
async fn one_done(steps: &str) -> (Plan, Windlass, Worker, Vec<Command>) {
    let (plan, windlass) = planned();
    let worker = Worker::register(&windlass).await;
    start(&windlass, steps).await;
    let first = worker.claim().await;
    assert_eq!(name(&first[0]), "a");
    let done = worker.complete(&first[0], &json!(7));
    (plan, windlass, worker, vec![done])
}

#[tokio::test(start_paused = true)]
async fn what_parents_returned_is_waited_for() {
    let (plan, _, worker, done) = one_done("  a: { task: work }\n  b: { task: work, needs: a }\n").await;
    plan.once("results", down());
    let handed = worker.turn(done).await.handed.unwrap();
    assert_eq!((handed.len(), results(&handed[0])), (1, vec![("a", Some("7"))]));
    assert_eq!(plan.calls("results"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_step_whose_parents_are_not_known_is_given_back_and_the_others_are_handed_out() {
    let steps = "  a: { task: work }\n  b: { task: work, needs: a }\n  c: { task: work }\n";
    let (plan, windlass) = planned();
    let worker = Worker::register(&windlass).await;
    start(&windlass, steps).await;
    let first = worker.claim().await;
    assert_eq!(first.iter().map(name).collect::<Vec<_>>(), ["a", "c"]);
    let lone = windlass.client().submit_json("work", "1").await.unwrap().id;
    plan.set(&["results"], down());
    let turned = worker.turn(vec![worker.complete(&first[0], &json!(7))]).await;
    assert!(turned.receipts[0].as_ref().unwrap().changed, "what was told is told");
    assert_eq!(turned.handed.unwrap().iter().map(id).collect::<Vec<_>>(), [lone]);
    plan.mend();
    let again = worker.claim().await;
    assert_eq!((name(&again[0]), results(&again[0])), ("b", vec![("a", Some("7"))]));
    assert_eq!(again[0].claimed.task.status.attempt, 1, "it costs no attempt");
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_told_of_steps_is_told_later_and_the_others_are_handed_out() {
    let steps = "  a: { task: work }\n  b: { task: work, needs: a, if: 'a > 9' }\n  c: { task: work, needs: b, join: all_done }\n";
    let (plan, windlass, worker, done) = one_done(steps).await;
    let lone = windlass.client().submit_json("work", "1").await.unwrap().id;
    // The turn itself is made; to say that the step is skipped fails.
    plan.once("turn", Fault::Late(ms(0)));
    plan.once("turn", down());
    let turned = worker.turn(done).await;
    assert!(turned.receipts[0].as_ref().unwrap().changed, "what was told is told");
    assert!(!turned.went_on, "nothing follows from it yet");
    assert_eq!(turned.handed.unwrap().iter().map(id).collect::<Vec<_>>(), [lone]);
    pass(secs(1)).await;
    let next = worker.claim().await;
    assert_eq!(next.iter().map(name).collect::<Vec<_>>(), ["c"], "it was skipped meanwhile");
}

#[tokio::test(start_paused = true)]
async fn no_more_is_handed_out_than_an_answer_holds() {
    let (_, windlass) = planned();
    let worker = Worker::register(&windlass).await;
    let payload = json!("x".repeat(limits::JSON_BYTES - 2)).to_string();
    let mut all = Vec::new();
    for _ in 0..70 {
        all.push(windlass.client().submit_json("work", &payload).await.unwrap().id);
    }
    let first = worker.claim().await;
    let most = limits::HANDED_BYTES / limits::JSON_BYTES;
    assert_eq!(first.iter().map(id).collect::<Vec<_>>(), all[..most]);
    for rest in &all[most..] {
        assert_eq!(state(&windlass, *rest).await, State::Pending);
    }
    assert_eq!(worker.claim().await.iter().map(id).collect::<Vec<_>>(), all[most..most * 2]);
}

/// Nobody here sees the handler start, so a last attempt counts as started when it is handed out. What cannot
/// be recorded is given back.
#[tokio::test(start_paused = true)]
async fn a_last_attempt_counts_as_started_when_it_is_handed_out() {
    let (plan, windlass) = planned();
    let worker = Worker::register(&windlass).await;
    let submit = async |attempts: u32| {
        windlass.client().submit_json("work", "1").max_attempts(attempts).await.unwrap().id
    };
    let (plain, last) = (submit(3).await, submit(1).await);
    let handed = worker.claim().await;
    assert_eq!(handed.iter().map(id).collect::<Vec<_>>(), [plain, last]);
    assert_eq!(
        (state(&windlass, plain).await, state(&windlass, last).await),
        (State::Claimed, State::Running)
    );

    let (plain, last) = (submit(3).await, submit(1).await);
    plan.once("turn", Fault::Late(ms(0)));
    plan.once("turn", down());
    assert_eq!(worker.claim().await.iter().map(id).collect::<Vec<_>>(), [plain]);
    pass(secs(1)).await;
    assert_eq!(state(&windlass, last).await, State::Pending);
    let again = worker.claim().await;
    assert_eq!((id(&again[0]), again[0].claimed.task.status.attempt), (last, 1));
}
