//! What must hold in any store at any time, read from rows alone.
//!
//! Numbers are those of docs/requirements.md: I3 one final transition per life, I4 one holder, I6 nothing
//! that is over is offered, I7 lanes, I8 keys, I9 history, I10 joins, I11 and I12 workflows, I13 attempts,
//! I15 leader, I20 counts.

mod workflows;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use windlass_core::{
    Command, Reason, Schedule, State, Task, Timestamp, Waits, Worker, WorkflowState, history, limits, rank,
    set_back,
};

pub use self::workflows::{check_order, check_order_of, dump_workflows};
use crate::{Clock, Count, Due, Filter, Page, Record, Store};

/// Longer than any test holds a transaction open.
const PATIENCE: Duration = Duration::from_secs(60);

/// All records, oldest first.
pub async fn dump(store: &dyn Store) -> Vec<Record> {
    let (mut records, mut page) = (Vec::new(), Page { limit: 100, after: None, oldest_first: true });
    loop {
        let listing = store.tasks(Filter::default(), page).await.unwrap();
        for task in listing.tasks {
            let record = store.task(task.id).await.unwrap().expect("what is listed is there");
            assert_eq!(record.task, task, "a listing shows the row");
            records.push(record);
        }
        page.after = listing.next;
        if page.after.is_none() {
            return records;
        }
    }
}

/// Checks everything, and panics with the name of the first promise that is broken.
pub async fn check(store: &dyn Store, clock: &dyn Clock) {
    let records = dump(store).await;
    for record in &records {
        check_row(record);
        check_history(record);
        check_notes(record);
    }
    check_lanes(&records);
    check_keys(&records);
    check_counts(&records, &store.counts().await.unwrap());
    check_finding(store, &records).await;
    check_due(store, &records, clock).await;
    workflows::check(store, &records).await;
    check_reconcile(store).await;
    if let Some(leader) = store.leader().await.unwrap() {
        let campaigner = windlass_core::WorkerId::new("somebody else").unwrap();
        let heard = store.workers().await.unwrap().iter().map(|worker| worker.heartbeat_at).max();
        let by = set_back(heard, clock.now()).unwrap_or_default();
        let live = leader.clone().set_back(by).until > clock.now() && leader.holder != campaigner;
        let won = store.campaign(campaigner.clone(), Duration::ZERO).await.unwrap();
        assert_eq!(won.is_none(), live, "I15: at most one leader per term");
        assert!(won.is_none_or(|won| won.term > leader.term), "I15: a term is never used again");
    }
}

/// What must hold beside a state.
fn check_row(Record { task, result, .. }: &Record) {
    let (id, now) = (task.id, &task.status);
    let state = now.state;
    assert_eq!(now.finished_at.is_some(), state.is_final(), "{id}: a finish time iff final ({state})");
    assert_eq!(now.due_at.is_some(), state.is_timed(), "{id}: a due time iff timed ({state})");
    assert_eq!(now.error.is_some(), state.has_error(), "{id}: an error iff failed ({state})");
    assert_eq!(now.waits != Waits::Nothing, state == State::Waiting, "{id}: {:?} beside {state}", now.waits);
    assert_eq!(now.worker.is_some(), now.claimed_at.is_some(), "{id}: a holder has a claim time");
    assert!(now.worker.is_some() || !state.is_held(), "I4 {id}: who is held has a holder");
    assert!(now.worker.is_none() || state.is_held() || state.is_final(), "I4 {id}: no holder beside {state}");
    assert_eq!(
        now.started_at.is_some() && state.is_held(),
        state == State::Running,
        "{id}: running iff started"
    );
    match state {
        State::Completed => assert!(result.is_some(), "{id}: completed with a result"),
        State::ResolvedManually => {}
        _ => assert!(result.is_none(), "{id}: no result beside {state}"),
    }
    let max = task.spec.max_attempts.map_or(u32::MAX, |max| max.get());
    assert!(now.attempt <= max, "I13 {id}: {} of {max} attempts", now.attempt);
    assert!(now.attempt <= now.lease, "{id}: an attempt is a claim");
    assert!(task.spec.created_at <= now.updated_at, "{id}: changed before it was there");
    if state == State::Pending {
        let rank = rank(task.spec.priority, task.spec.ageing, task.spec.created_at, now.attempt);
        assert_eq!(now.rank, rank, "I16 {id}: its place follows from what it is");
    }
}

/// I3 and I9: the history is whole, legal, and its fold equals the row.
fn check_history(Record { task, history, .. }: &Record) {
    let (id, now) = (task.id, &task.status);
    assert_eq!(history::fault(history), None, "I9 {id}: {history:#?}");
    let last = history.last().unwrap();
    assert_eq!(last.to, now.state, "I9 {id}: the last entry is the state");
    assert_eq!(last.seq, now.entries, "I9 {id}: entries are counted");
    assert_eq!(last.at, now.updated_at, "I9 {id}: the last entry is the last change");
    assert_eq!(history[0].at, task.spec.created_at, "I9 {id}: the first entry is the submit");
    assert_eq!(history::attempts_used(history), now.attempt, "I9 {id}: attempts are counted from claims");
    let attempts = history::attempts(history);
    assert_eq!(attempts.len(), usize::try_from(now.lease).unwrap(), "I9 {id}: one lease per claim");
    if now.state.is_held() || now.state.is_final() && now.worker.is_some() {
        let last = attempts.last().unwrap();
        assert_eq!(last.worker, now.worker, "I9 {id}: the last claim's worker");
        assert_eq!(Some(last.claimed_at), now.claimed_at, "I9 {id}: the last claim's time");
        assert_eq!(last.started_at, now.started_at, "I9 {id}: the last start");
    }
    if now.state.is_final() {
        assert_eq!(now.finished_at, Some(last.at), "I3 {id}: finished when the last entry says");
    }
    for pair in history.windows(2).filter(|pair| pair[0].to.is_final()) {
        let again = [Reason::Retried, Reason::Reopened, Reason::Resolved, Reason::Skipped];
        let reopened = again.contains(&pair[1].reason);
        assert!(reopened, "I3 {id}: {} ended only until it was {}", pair[0].to, pair[1].reason);
    }
    if now.state.has_error() {
        assert_eq!(now.error, last.note, "I9 {id}: the error is in the history");
    }
}

/// I5: notes belong to claims that were made, each has something to say, and none is larger than it may be.
fn check_notes(Record { task, notes, .. }: &Record) {
    let id = task.id;
    assert!(
        notes.is_sorted_by(|one, next| one.lease < next.lease),
        "I5 {id}: one for a claim, in their order"
    );
    for notes in notes {
        let lease = notes.lease;
        assert!(
            (1..=task.status.lease).contains(&lease),
            "I5 {id}: notes of a claim {lease} that was not made"
        );
        let says = notes.progress.is_some() || notes.details.is_some() || !notes.lines.is_empty();
        assert!(says, "{id}: empty notes of claim {lease}");
        let bytes: usize = notes.lines.iter().map(|line| line.text.len()).sum();
        assert!(bytes <= limits::LOG_BYTES && notes.lines.len() <= limits::LOG_LINES, "{id}: a bounded log");
    }
}

/// I7: never more in progress than the limit, held ones hold slots and so do those whose workflows run, and
/// nobody waits beside a free slot.
fn check_lanes(records: &[Record]) {
    let mut lanes: BTreeMap<_, Vec<&Task>> = BTreeMap::new();
    for Record { task, .. } in records {
        match task.spec.lane_key() {
            Some(lane) => lanes.entry(lane).or_default().push(task),
            None => assert!(!task.status.slot, "I7: {} has a slot of no lane", task.id),
        }
    }
    for ((_, key), tasks) in lanes {
        let limit = |task: &Task| usize::try_from(task.spec.lane.as_ref().unwrap().limit()).unwrap();
        let taken: Vec<_> = tasks.iter().filter(|task| task.status.slot).collect();
        let largest = tasks.iter().map(|task| limit(task)).max().unwrap_or(0);
        assert!(taken.len() <= largest, "I7: {} in lane {key} of {largest}", taken.len());
        for task in &tasks {
            let (id, now) = (task.id, &task.status);
            assert!(now.slot || !now.state.is_held(), "I7 {id}: held without a slot");
            assert!(!now.slot || !now.state.is_final(), "I7 {id}: final with a slot");
            let nests = now.waits == Waits::Workflow;
            assert!(now.slot || !nests, "I7 {id}: its workflow runs without a slot");
            assert!(!now.slot || nests || now.state != State::Waiting, "I7 {id}: waiting with a slot");
            let keeps = task.spec.lane.as_ref().unwrap().is_strict() && now.lease > 0;
            assert!(!now.slot || !now.state.is_timed() || keeps, "I7 {id}: {} with a slot", now.state);
        }
        if let Some(head) = tasks.iter().find(|task| task.is_parked()) {
            assert!(taken.len() >= limit(head), "I7: {} waits beside a free slot of {key}", head.id);
        }
    }
}

/// I8: a key belongs to one task.
fn check_keys(records: &[Record]) {
    let mut seen = HashSet::new();
    for Record { task: Task { spec, .. }, .. } in records {
        if let Some(key) = &spec.key {
            assert!(seen.insert((&spec.namespace, &spec.kind, key)), "I8: two tasks have key {key:?}");
        }
    }
}

/// I20: counts equal rows.
fn check_counts(records: &[Record], counts: &[Count]) {
    let mut expected: HashMap<_, u64> = HashMap::new();
    for Record { task: Task { spec, status, .. }, .. } in records {
        let is_step = spec.workflow.is_some();
        *expected.entry((&spec.namespace, &spec.queue, &spec.kind, is_step, status.state)).or_default() += 1;
    }
    assert!(counts.is_sorted(), "counts are in order");
    let counted = counts.iter().map(|Count { namespace, queue, kind, is_step, state, tasks }| {
        ((namespace, queue, kind, *is_step, *state), *tasks)
    });
    assert_eq!(counted.collect::<HashMap<_, _>>(), expected, "I20: counts equal rows");
}

/// Every key finds its task.
async fn check_finding(store: &dyn Store, records: &[Record]) {
    for Record { task: Task { id, spec, .. }, .. } in records {
        if let Some(key) = &spec.key {
            let found = store.find(spec.namespace.clone(), spec.kind.clone(), key.into()).await.unwrap();
            assert_eq!(found, Some(*id), "I8: key {key:?} finds its task");
        }
    }
}

/// I12: what waits for a moment that has come is due, and so is what a dead worker holds; nothing else is.
async fn check_due(store: &dyn Store, records: &[Record], clock: &dyn Clock) {
    let (workers, schedules) = (store.workers().await.unwrap(), store.schedules().await.unwrap());
    let mut due = whole_due(store, records, &schedules, clock).await;
    let now = due.now;
    let alive = |task: &Task| {
        let holder = workers.iter().find(|worker| Some(&worker.id) == task.status.worker.as_ref());
        holder.is_some_and(|holder| holder.is_alive(now))
    };
    let mut expected: Vec<_> = records
        .iter()
        .map(|record| &record.task)
        .filter_map(|task| match task.status.due_at {
            Some(due) => (due <= now).then_some(Command::Promote { task: task.id }),
            None if task.status.state.is_held() && !alive(task) => {
                Some(Command::Expire { task: task.id, lease: task.status.lease })
            }
            None => None,
        })
        .collect();
    due.commands.sort_by_key(Command::task);
    expected.sort_by_key(Command::task);
    assert_eq!(due.commands, expected, "I12: what is due is what waits in vain");
    assert_eq!(due.next, next_moment(records, &schedules, now), "I12: the next moment");
    check_timetable(&due, &schedules, &workers);
}

/// What is due, asked for again while the store is hindered from looking at everything, as by another test's
/// open transaction in the same server. Where the clock is held nothing hinders.
async fn whole_due(store: &dyn Store, records: &[Record], schedules: &[Schedule], clock: &dyn Clock) -> Due {
    let begun = Instant::now();
    loop {
        let since = clock.now();
        let due = store.due(records.len().max(schedules.len()) + 1).await.unwrap();
        let until = clock.now();
        assert!((since..=until).contains(&due.now), "the store's present is {}", due.now);
        let next = next_moment(records, schedules, due.now);
        match due.next.filter(|again| next.is_none_or(|next| *again < next)) {
            Some(again) if since < until && begun.elapsed() < PATIENCE => {
                tokio::time::sleep(again.since(due.now).min(PATIENCE)).await; // tidy: sleep, as the store says
            }
            _ => return due,
        }
    }
}

/// When the first of what waits for a moment has reached it.
fn next_moment(records: &[Record], schedules: &[Schedule], now: Timestamp) -> Option<Timestamp> {
    let waiting = records.iter().filter_map(|record| record.task.status.due_at);
    let slots = schedules.iter().filter(|schedule| !schedule.paused).map(|schedule| schedule.next_at);
    let slots = slots.filter(|slot| *slot < Timestamp::MAX);
    waiting.chain(slots).filter(|moment| *moment > now).min()
}

/// I14, C54: schedules that are due are those whose slot has come, earliest first; and so follows when a
/// worker falls silent.
fn check_timetable(due: &Due, schedules: &[Schedule], workers: &[Worker]) {
    let now = due.now;
    let place = |schedule: &Schedule| (schedule.namespace.clone(), schedule.name.clone());
    assert!(schedules.is_sorted_by_key(place), "schedules are in order");
    let mut come: Vec<_> =
        schedules.iter().filter(|one| !one.paused && one.next_at <= now).cloned().collect();
    come.sort_by_key(|schedule| schedule.next_at);
    assert_eq!(due.schedules, come, "I14: schedules whose slot has come");
    let silent_at = workers.iter().map(Worker::alive_until).filter(|until| *until > now).min();
    assert_eq!(due.silent_at, silent_at, "C54: when the first worker falls silent");
}

/// I7, I12: a look at all lanes and all workflows finds nothing to put right, and comes to an end. Only what
/// an owner that fell silent has left where it does not belong is moved on.
async fn check_reconcile(store: &dyn Store) {
    let now = store.now().await.unwrap();
    let left: HashSet<String> = dump_workflows(store)
        .await
        .into_iter()
        .map(|record| record.workflow)
        .filter(|workflow| workflow.owner.as_ref().is_some_and(|(_, until)| *until <= now))
        .filter(|workflow| workflow.state != WorkflowState::of(&workflow.counts))
        .map(|workflow| format!("workflow {}", workflow.id))
        .collect();
    let mut after = None;
    loop {
        let look = store.reconcile(after.clone(), 100).await.unwrap();
        let allowed = look.next.as_ref().is_some_and(|next| left.contains(next));
        assert_eq!(look.repaired, u64::from(allowed), "I7, I12: something was put right after {after:?}");
        assert!(look.next.is_none() || look.next > after, "a look moves on from {after:?}");
        after = look.next;
        if after.is_none() {
            return;
        }
    }
}
