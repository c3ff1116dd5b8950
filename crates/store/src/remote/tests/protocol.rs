//! What is sent, to the letter. Who changes it changes the protocol, and has to say so.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::json;
use windlass_core::access::Scope;
use windlass_core::{
    AccessToken, By, Command, Executions, Lane, Line, Name, NewAuditEntry, NewSecret, NewTask, NewWorker,
    Progress, Report, Retention, Start, State, Steering, Timestamp, WorkerId,
};

use super::super::RemoteStore;
use super::super::loopback::Loopback;
use super::super::options::ANSWER;
use super::super::protocol::PROTOCOL;
use super::super::responder::Responder;
use super::super::transport::{Errand, Lost, Parcel, Transport};
use crate::conformance::{
    KIND, START, ad_hoc, claim_of, completed, definition, entity, failed, finish, firing, hourly, id, report,
    token, workflow_id,
};
use crate::{Catalog, Filter, ManualClock, MemoryStore, Page, Reads, Store, Turn, WorkflowFilter, Writes};

/// Writes down all that is sent and answered.
#[derive(Debug)]
struct Recorder {
    inner: Loopback,
    lines: Arc<Mutex<String>>,
}

#[async_trait]
impl Transport for Recorder {
    async fn exchange(&self, parcel: Parcel) -> Result<Bytes, Lost> {
        let sent = String::from_utf8(parcel.body.to_vec()).unwrap();
        let answer = self.inner.exchange(parcel).await?;
        let answered = String::from_utf8(answer.to_vec()).unwrap();
        *self.lines.lock().unwrap() += &format!("> {sent}\n< {answered}\n");
        Ok(answer)
    }

    fn spawn(&self, errand: Errand) {
        self.inner.spawn(errand);
    }

    fn place(&self) -> String {
        "here".into()
    }
}

/// A day in the life of a store, with a little of everything.
async fn story() -> String {
    let clock = Arc::new(ManualClock::new(START));
    let memory = Arc::new(MemoryStore::new(clock.clone()));
    let inner = Loopback::with(Responder::new(memory, 7, "test"));
    let lines: Arc<Mutex<String>> = Arc::default();
    let mut store =
        RemoteStore::open(Arc::new(Recorder { inner, lines: lines.clone() }), ANSWER).await.unwrap();
    store.wrap.leads = true;
    tasks(&store, &clock).await;
    workflows(&store, &clock).await;
    operators(&store).await;
    let lines = lines.lock().unwrap();
    lines.clone()
}

fn plain(n: u64) -> NewTask {
    NewTask::new(id(n), Name::kind(KIND).unwrap(), windlass_core::Json::payload(" {\"a\" : 1e400}").unwrap())
}

async fn tasks(store: &RemoteStore, clock: &ManualClock) {
    store.describe().await.unwrap();
    let full = NewTask {
        key: Some("once".into()),
        lane: Some(Lane::of(&entity("planner:42")).strict()),
        start: Start::After(Duration::from_millis(1500)),
        timeout: Some(Duration::from_secs(60)),
        tags: vec!["é".into()],
        max_attempts: None,
        actor: Some("ada".into()),
        ..plain(1)
    };
    let key = NewTask { id: id(2), on_conflict: windlass_core::OnConflict::Reject, ..full.clone() };
    store.submit(vec![full, plain(3)]).await.unwrap();
    store.submit(vec![key, plain(4)]).await.unwrap_err();
    let worker = WorkerId::new("host-1-a").unwrap();
    let kinds = vec![Name::kind(KIND).unwrap()];
    store.register(NewWorker { kinds, ..NewWorker::new(worker.clone()) }).await.unwrap();
    let claimed = store.claim(claim_of(&worker, 1)).await.unwrap().remove(0);
    store.heartbeat(worker.clone(), vec![(id(3), 1), (id(9), 1)]).await.unwrap();
    let told = Report {
        progress: Some(Progress { done: 1, total: Some(2), note: Some("half".into()) }),
        details: Some(windlass_core::Json::stored("7")),
        first_line: 0,
        lines: vec![Line { at: START, text: "hello".into() }],
    };
    let by = || By { actor: Some("ada".into()), note: Some("late".into()) };
    let commands = vec![
        Command::Start { token: token(&claimed), at: Some(START) },
        report(&claimed, told),
        finish(&claimed, failed("broken")),
        Command::Release { token: token(&claimed), note: None },
        Command::Cancel { task: id(1), by: by() },
        Command::Retry { task: id(1), force: true, by: by() },
        Command::Postpone { task: id(3), delay: Duration::from_secs(5) },
        Command::Resolve { task: id(8), result: None, by: By::default() },
        Command::Skip { task: id(3), by: By::default() },
        Command::Promote { task: id(3) },
        Command::Expire { task: id(3), lease: 1 },
        Command::Delete { task: id(3) },
        Command::Claim { task: id(8), worker: worker.clone() },
    ];
    store.turn(Turn { commands, claim: Some(claim_of(&worker, 5)), term: None }).await.unwrap();
    clock.advance(Duration::from_secs(9));
    store.campaign(worker.clone(), Duration::from_secs(30)).await.unwrap();
    store.due(10).await.unwrap();
    store.task(id(3)).await.unwrap();
    store.facts(id(1)).await.unwrap();
    store.find(Name::default(), Name::kind(KIND).unwrap(), "once".into()).await.unwrap();
    let filter = Filter { states: vec![State::Pending], worker: Some(worker.clone()), ..Filter::default() };
    store.tasks(filter, Page { limit: 1, after: "c0".parse().ok(), oldest_first: true }).await.unwrap();
    store.tasks(Filter::default(), Page { limit: 1, ..Page::default() }).await.unwrap();
    store.workers().await.unwrap();
    store.leader().await.unwrap();
    store.counts().await.unwrap();
    store.resign(worker.clone(), 1).await.unwrap();
    store.deregister(worker.clone()).await.unwrap();
    let retention = Retention::default().keep(State::Completed, Duration::from_secs(1)).unwrap();
    store.prune(retention.clone(), 10).await.unwrap();
}

async fn workflows(store: &RemoteStore, clock: &ManualClock) {
    let namespace = Name::default();
    let steps = json!({ "a": { "retry": { "factor": 1.5 } }, "b": { "needs": ["a"], "if": "a.ok", "input": { "x": [1.25] } } });
    store.define(namespace.clone(), definition(steps.clone())).await.unwrap();
    store.definition(namespace.clone(), Name::stored("test"), None).await.unwrap();
    store.definitions(namespace.clone(), None).await.unwrap();
    store.define(namespace.clone(), definition(json!({ "a": { "needs": ["a"] } }))).await.unwrap_err();
    store.events(None, 10).await.unwrap();
    let id = store.start(ad_hoc(1, definition(steps))).await.unwrap().id;
    let worker = WorkerId::new("host-1-b").unwrap();
    store.register(NewWorker::new(worker.clone())).await.unwrap();
    store
        .turn(Turn { commands: vec![Command::Claim { task: id.step(0), worker }], ..Turn::default() })
        .await
        .unwrap();
    let claimed = store.task(id.step(0)).await.unwrap().unwrap();
    let token = windlass_core::Token {
        task: id.step(0),
        lease: 1,
        worker: claimed.task.status.worker.clone().unwrap(),
    };
    let done = Command::Finish { token, outcome: completed("{\"ok\":true}"), started_at: None };
    store.apply(vec![done]).await.unwrap();
    clock.advance(Duration::from_secs(1));
    store.workflow(id).await.unwrap();
    store.workflow(id).await.unwrap();
    store.results(vec![id.step(0), id.step(1)]).await.unwrap();
    store.ready_workflows(Some(namespace.clone()), None, 3).await.unwrap();
    store.steer(id, Steering::Pause, By::default()).await.unwrap();
    store.steer(workflow_id(9), Steering::Cancel, By::default()).await.unwrap_err();
    store.workflows(WorkflowFilter::default(), Page::default()).await.unwrap();
    store.find_workflow(namespace.clone(), Name::stored("test"), "k".into()).await.unwrap();
    store.workflow_counts().await.unwrap();
    store.activity(Timestamp::MIN, Some(namespace.clone())).await.unwrap();
    let wanted = Executions {
        of_steps: true,
        since: Timestamp::MIN,
        limit: 3,
        namespace: None,
        name: None,
        version: None,
        together: Some(1),
    };
    store.executions(wanted).await.unwrap();
    store.events("e0-0".parse().ok(), 3).await.unwrap();
}

async fn operators(store: &RemoteStore) {
    let namespace = Name::default();
    store.pause(namespace.clone(), namespace.clone(), true).await.unwrap();
    store.paused().await.unwrap();
    store.set_entity(namespace.clone(), entity("planner:42"), true).await.unwrap();
    store.has_entity(namespace.clone(), entity("planner:42")).await.unwrap();
    store.entities(namespace.clone(), None, 10).await.unwrap();
    let schedule = store.set_schedule(hourly("nightly", START)).await.unwrap();
    store.fire(firing(&schedule, id(20)), None).await.unwrap();
    store.schedules().await.unwrap();
    store.remove_schedule(namespace.clone(), schedule.name.clone()).await.unwrap();
    store.reconcile(None, 10).await.unwrap();
    let access = AccessToken {
        name: Name::stored("ci"),
        id: "0123abcd".into(),
        digest: [7; 32],
        scopes: [Scope::Read, Scope::Work].into(),
        queues: vec!["mail-*".parse().unwrap()],
        namespaces: Vec::new(),
        groups: Vec::new(),
        created_at: START,
        created_by: Some("ada".into()),
        expires_at: None,
        previous: Vec::new(),
        last_used_at: None,
    };
    store.put_access_token(access.clone()).await.unwrap();
    store.put_access_token(access).await.unwrap_err();
    store.access_tokens().await.unwrap();
    store.had_access_tokens().await.unwrap();
    let secret = NewSecret { id: "89abcdef".into(), digest: [8; 32] };
    store.rotate_access_token(Name::stored("ci"), secret, Duration::from_secs(60)).await.unwrap();
    store.touch_access_tokens(vec![(Name::stored("ci"), START)]).await.unwrap();
    store.access_tokens().await.unwrap();
    store.revoke_access_token(Name::stored("ci")).await.unwrap();
    let entry = NewAuditEntry {
        actor: "ada".into(),
        action: "task.cancel".into(),
        subject: "x".into(),
        reason: None,
        namespace: Some(Name::stored("acme")),
    };
    store.audit(entry).await.unwrap();
    store.audits(Page::default()).await.unwrap();
}

/// `WINDLASS_BLESS=1` writes the file anew: only together with another number, once a version was given to
/// others.
#[tokio::test]
async fn what_is_sent_is_the_protocol() {
    let path = format!("{}/src/remote/tests/protocol_{PROTOCOL}.txt", env!("CARGO_MANIFEST_DIR"));
    let told = story().await;
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        std::fs::write(&path, &told).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    for (number, (told, known)) in told.lines().zip(known.lines()).enumerate() {
        assert_eq!(told, known, "line {} of what is sent has changed: raise PROTOCOL", number + 1);
    }
    assert_eq!(told.lines().count(), known.lines().count(), "raise PROTOCOL");
}
