//! The feed of changes: nothing unless somebody listens, then every change, in order, once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::json;
use windlass_core::{
    By, Change, Command, Event, EventId, Events, Name, NewTask, NewWorker, Outcome, Retention, Start, State,
    Steering, TaskId, Timestamp, WorkerId, WorkflowId, limits,
};

use super::{
    Case, KIND, STATES, claim_of, completed, details, expanded, failed, failed_for_good, finish, id,
    invariants, report, scenarios, token,
};
use crate::{Store, Turn};

scenarios![
    nothing_is_told_of_the_past,
    a_task_is_told_as_it_goes,
    what_an_operator_does_is_told,
    what_time_does_is_told,
    an_event_says_whose_it_is,
    a_new_claim_in_the_same_turn_is_told,
    steps_and_their_workflow_are_told,
    lists_and_skipped_steps_are_told,
    a_workflow_within_a_workflow_is_told,
    what_changes_nothing_tells_nothing,
    deleting_tells_nothing,
    pages_of_any_size_have_no_gaps,
    everybody_is_told_the_same,
    a_place_outlives_a_crash,
    what_another_process_does_is_told,
    asking_keeps_it_on,
    who_was_away_for_too_long_is_told_so,
    who_comes_from_elsewhere_is_told_so,
    old_events_are_pruned,
    an_event_id_survives_being_written_down,
    a_page_has_one_to_a_thousand_events,
    nothing_is_missing_in_a_race,
];

/// How long a feed may take to tell what is done. Another's open transaction may hold it up, never this long.
const SOON: Duration = Duration::from_secs(20);

/// Whom an event is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Subject {
    Task(TaskId),
    Workflow(WorkflowId),
}

/// Its state, and how often it was tried.
type Place = (&'static str, u32);

fn read(event: &Event) -> (Subject, Place) {
    match &event.change {
        Change::Task { task, state, attempt, .. } => (Subject::Task(*task), (state.word(), *attempt)),
        Change::Workflow { workflow, state, .. } => (Subject::Workflow(*workflow), (state.word(), 0)),
    }
}

/// Where everything is by its rows.
async fn rows(store: &dyn Store) -> BTreeMap<Subject, Place> {
    let tasks = invariants::dump(store).await.into_iter().map(|record| {
        (Subject::Task(record.task.id), (record.task.status.state.word(), record.task.status.attempt))
    });
    let workflows = invariants::dump_workflows(store)
        .await
        .into_iter()
        .map(|record| (Subject::Workflow(record.workflow.id), (record.workflow.state.word(), 0)));
    tasks.chain(workflows).collect()
}

/// One who listens, and knows from events alone where everything is.
pub(super) struct Ear {
    last: EventId,
    places: BTreeMap<Subject, Place>,
}

impl Ear {
    /// Begins to listen, and looks where everything is.
    pub(super) async fn new(store: &dyn Store) -> Self {
        let Events { events, last, complete } = store.events(None, 100).await.unwrap();
        assert!(events.is_empty() && complete, "who begins is told nothing");
        Self { last, places: rows(store).await }
    }

    /// Takes a page in.
    fn hear(&mut self, told: &Events) {
        for event in &told.events {
            assert!(event.id > self.last, "{} comes after {}", event.id, self.last);
            self.last = event.id;
            let (subject, place) = read(event);
            self.places.insert(subject, place);
        }
        assert_eq!(told.last, self.last, "one goes on after the last event");
    }

    /// Reads on; says whether there may be more. Who missed something begins anew.
    pub(super) async fn ask(&mut self, store: &dyn Store) -> bool {
        let told = store.events(Some(self.last), 100).await.unwrap();
        if told.complete {
            self.hear(&told);
        } else {
            *self = Self::new(store).await;
        }
        told.complete && told.events.len() == 100
    }

    /// Reads on until events and rows agree about everything that is there.
    pub(super) async fn agrees(&mut self, store: &dyn Store) {
        let rows = rows(store).await;
        let begun = std::time::Instant::now();
        loop {
            let is_more = self.ask(store).await;
            let wrong = rows.iter().find(|(subject, place)| self.places.get(subject) != Some(place));
            if wrong.is_none() && !is_more {
                return;
            }
            assert!(
                begun.elapsed() < SOON,
                "not told: {wrong:?}, but {:?}",
                wrong.map(|one| self.places.get(one.0))
            );
        }
    }
}

/// The place to go on from.
async fn listen(case: &Case) -> EventId {
    let told = case.store().events(None, 1).await.unwrap();
    assert_eq!((told.events, told.complete), (vec![], true), "who begins is told nothing");
    told.last
}

/// All that is told after `last` by page of `limit`, to the end: a task of another namespace is submitted,
/// and when that is told, everything before it was.
async fn told_by(case: &Case, store: &dyn Store, last: &mut EventId, limit: usize) -> Vec<Event> {
    let namespace = Name::namespace("marker").unwrap();
    let marker = case.submit(NewTask { namespace, ..case.task() }).await;
    let (mut all, begun) = (Vec::new(), std::time::Instant::now());
    loop {
        let Events { events, last: next, complete } = store.events(Some(*last), limit).await.unwrap();
        assert!(complete, "nothing is missing after {last}");
        assert!(events.len() <= limit);
        assert_eq!(next, events.last().map_or(*last, |event| event.id), "one goes on after the last event");
        for event in events {
            assert!(event.id > *last, "{} comes after {last}", event.id);
            *last = event.id;
            if read(&event).0 == Subject::Task(marker) {
                return all;
            }
            all.push(event);
        }
        assert!(begun.elapsed() < SOON, "the marker is told");
    }
}

async fn told(case: &Case, last: &mut EventId) -> Vec<Event> {
    told_by(case, &*case.store(), last, 100).await
}

/// The events of one task, as words.
async fn told_of(case: &Case, last: &mut EventId, task: TaskId) -> Vec<Place> {
    let events = told(case, last).await;
    let places = events.iter().map(|event| {
        let (subject, place) = read(event);
        assert_eq!(subject, Subject::Task(task), "nothing else was done");
        place
    });
    places.collect()
}

/// Begins with nothing: before somebody asks, nothing is written down.
async fn nothing_is_told_of_the_past(case: &Case) {
    for state in STATES {
        case.bring(case.task(), state).await;
    }
    let mut last = listen(case).await;
    let early = case.store().events(Some(EventId::new(0, 0)), 100).await.unwrap();
    assert_eq!(
        (early.events, early.complete, early.last),
        (vec![], false, last),
        "what was before is not known"
    );
    let new = case.submit(case.task()).await;
    assert_eq!(told_of(case, &mut last, new).await, [("pending", 0)]);
}

/// From the beginning to the end, with a retry.
async fn a_task_is_told_as_it_goes(case: &Case) {
    let worker = case.worker("w").await;
    let mut last = listen(case).await;
    let id = case.submit(case.task()).await;
    assert_eq!(told_of(case, &mut last, id).await, [("pending", 0)]);
    let claimed = case.claim_one(&worker).await;
    assert_eq!(told_of(case, &mut last, id).await, [("claimed", 1)]);
    case.apply(Command::Start { token: token(&claimed), at: None }).await.unwrap();
    assert_eq!(told_of(case, &mut last, id).await, [("running", 1)]);
    case.fail(&claimed, "x").await;
    assert_eq!(told_of(case, &mut last, id).await, [("waiting_for_retry", 1)]);
    case.pass(1);
    case.chores().await;
    assert_eq!(told_of(case, &mut last, id).await, [("pending", 1)]);
    let claimed = case.claim_one(&worker).await;
    assert_eq!(told_of(case, &mut last, id).await, [("claimed", 2)]);
    case.complete(&claimed).await;
    assert_eq!(told_of(case, &mut last, id).await, [("completed", 2)], "its start is told with its end");
    assert_eq!(told_of(case, &mut last, id).await, []);
}

/// How an operator's command is made.
type Make = fn(TaskId) -> Command;

/// Whatever state it is in.
async fn what_an_operator_does_is_told(case: &Case) {
    let cancel = |task| Command::Cancel { task, by: By::default() };
    let resolve = |task| Command::Resolve { task, result: None, by: By::default() };
    let retry = |task| Command::Retry { task, force: true, by: By::default() };
    for state in STATES {
        let mut commands: Vec<(Make, &str)> = Vec::new();
        if !state.is_final() {
            commands.extend([(cancel as Make, "cancelled"), (resolve, "resolved_manually")]);
        }
        if matches!(state, State::Failed | State::DeadLetter) {
            commands.push((resolve, "resolved_manually"));
        }
        if !matches!(state, State::Pending | State::Completed | State::ResolvedManually) {
            commands.push((retry, "pending"));
        }
        for (command, word) in commands {
            let id = case.bring(case.task(), state).await;
            let mut last = listen(case).await;
            // What was done just before may still be told, if another's transaction was in the way.
            let before = told(case, &mut last).await.len();
            case.apply(command(id)).await.unwrap();
            let places = told_of(case, &mut last, id).await;
            assert_eq!(places.iter().map(|(word, _)| *word).collect::<Vec<_>>(), [word], "{state}, {before}");
        }
    }
}

/// Moments that have come, snoozes, releases, and holders that are silent.
async fn what_time_does_is_told(case: &Case) {
    let worker = case.worker("w").await;
    let mut last = listen(case).await;
    let id = case.submit(NewTask { start: Start::After(Duration::from_secs(9)), ..case.task() }).await;
    assert_eq!(told_of(case, &mut last, id).await, [("scheduled", 0)]);
    case.pass(9);
    case.chores().await;
    assert_eq!(told_of(case, &mut last, id).await, [("pending", 0)]);
    let claimed = case.claim_one(&worker).await;
    case.finish(&claimed, Outcome::Snoozed { delay: Duration::from_secs(9) }).await.unwrap();
    assert_eq!(told_of(case, &mut last, id).await, [("claimed", 1), ("scheduled", 0)]);
    case.pass(9);
    case.chores().await;
    let claimed = case.claim_one(&worker).await;
    case.apply(Command::Release { token: token(&claimed), note: None }).await.unwrap();
    assert_eq!(told_of(case, &mut last, id).await, [("pending", 0), ("claimed", 1), ("pending", 0)]);
    case.claim_one(&worker).await;
    case.pass(60);
    case.chores().await;
    assert_eq!(told_of(case, &mut last, id).await, [("claimed", 1), ("pending", 1)]);
}

/// All that filters ask for, and when it was.
async fn an_event_says_whose_it_is(case: &Case) {
    let (namespace, queue) = (Name::namespace("tenant").unwrap(), Name::queue("q2").unwrap());
    let kind = Name::kind("k2").unwrap();
    let worker = WorkerId::new("w").unwrap();
    let new = NewWorker { namespace: namespace.clone(), ..NewWorker::new(worker.clone()) };
    case.store().register(new).await.unwrap();
    let mut last = listen(case).await;
    let new =
        NewTask { namespace: namespace.clone(), queue: queue.clone(), kind: kind.clone(), ..case.task() };
    let task = case.submit(new).await;
    let mut moments = vec![case.now()];
    let steps: [(State, Command); 3] = [
        (State::Claimed, Command::Claim { task, worker }),
        (State::Cancelled, Command::Cancel { task, by: By::default() }),
        (State::Pending, Command::Retry { task, force: true, by: By::default() }),
    ];
    for (_, command) in &steps {
        case.pass(1);
        moments.push(case.now());
        case.apply(command.clone()).await.unwrap();
    }
    let states = [State::Pending].into_iter().chain(steps.iter().map(|(state, _)| *state));
    let expected: Vec<(Timestamp, Name, State)> =
        moments.into_iter().zip(states).map(|(at, state)| (at, namespace.clone(), state)).collect();
    let events = told(case, &mut last).await;
    let found: Vec<(Timestamp, Name, State)> = events
        .iter()
        .map(|event| match &event.change {
            Change::Task { task: id, workflow, queue: of, kind: sort, state, .. } => {
                assert_eq!((*id, *workflow, of, sort), (task, None, &queue, &kind));
                (event.at, event.namespace.clone(), *state)
            }
            change @ Change::Workflow { .. } => panic!("{change:?}"),
        })
        .collect();
    assert_eq!(found, expected);
}

/// The state is the same as before, but it is another claim.
async fn a_new_claim_in_the_same_turn_is_told(case: &Case) {
    let (gone, next) = (case.worker("gone").await, WorkerId::new("next").unwrap());
    let id = case.submit(case.task()).await;
    case.claim_one(&gone).await;
    let mut last = listen(case).await;
    case.pass(60);
    case.worker(next.as_str()).await;
    let commands = vec![Command::Expire { task: id, lease: 1 }];
    let turn = Turn { commands, claim: Some(claim_of(&next, 1)), ..Turn::default() };
    assert_eq!(case.store().turn(turn).await.unwrap().claimed.unwrap().len(), 1);
    let places = told_of(case, &mut last, id).await;
    assert_eq!(places.last(), Some(&("claimed", 2)), "{places:?}");
}

/// Each step, and the workflow when its state changes; all agree with the rows at any time.
async fn steps_and_their_workflow_are_told(case: &Case) {
    let worker = case.worker("w").await;
    let (mut last, mut ear) = (listen(case).await, Ear::new(&*case.store()).await);
    let steps =
        json!({ "a": {}, "b": { "needs": ["a"] }, "c": { "needs": ["a"] }, "d": { "needs": ["b", "c"] } });
    let flow = case.start(1, steps).await;
    ear.agrees(&*case.store()).await;
    for outcome in [completed("1"), failed("x"), failed_for_good("x")] {
        case.work(&worker, outcome).await;
        ear.agrees(&*case.store()).await;
    }
    case.steer(flow, Steering::Pause).await;
    ear.agrees(&*case.store()).await;
    case.pass(1);
    case.chores().await;
    ear.agrees(&*case.store()).await;
    case.steer(flow, Steering::Resume).await;
    ear.agrees(&*case.store()).await;
    case.steer(flow, Steering::Cancel).await;
    ear.agrees(&*case.store()).await;
    let events = told(case, &mut last).await;
    let states: Vec<&str> = events
        .iter()
        .map(read)
        .filter_map(|(subject, (word, _))| (subject == Subject::Workflow(flow)).then_some(word))
        .collect();
    assert_eq!(states.last(), Some(&"cancelled"), "{states:?}");
    assert!(states.windows(2).all(|two| two[0] != two[1]), "each is another: {states:?}");
    for event in &events {
        match &event.change {
            Change::Workflow { workflow, name, .. } => {
                let row = case.workflow(flow).await.workflow;
                assert_eq!((*workflow, name, &event.namespace), (flow, &row.name, &row.namespace));
            }
            Change::Task { workflow, .. } => assert_eq!(*workflow, Some(flow)),
        }
    }
}

/// Items are made, settled and cleared; what follows from a skip is told with it.
async fn lists_and_skipped_steps_are_told(case: &Case) {
    let worker = case.worker("w").await;
    let mut ear = Ear::new(&*case.store()).await;
    let steps = json!({
        "a": { "map": { "over": "x" } }, "b": { "needs": ["a"], "join": "all_done" }, "c": {}, "d": { "needs": ["c"] }
    });
    let flow = case.start(1, steps).await;
    case.skip(flow.step(2)).await.unwrap();
    ear.agrees(&*case.store()).await;
    let a = case.claim_one(&worker).await;
    case.finish(&a, expanded(&["1", "2", "3"], Some(2))).await.unwrap();
    ear.agrees(&*case.store()).await;
    case.work(&worker, completed("1")).await;
    ear.agrees(&*case.store()).await;
    case.work(&worker, failed_for_good("x")).await;
    ear.agrees(&*case.store()).await;
    case.cancel(flow.step(0)).await.unwrap();
    ear.agrees(&*case.store()).await;
    case.retry(flow.step(0), true).await.unwrap();
    ear.agrees(&*case.store()).await;
    let a = case.take(flow.step(0), &worker).await;
    case.finish(&a, expanded(&["4"], None)).await.unwrap();
    while let Some(claimed) = case.claim(&worker, 1).await.pop() {
        case.complete(&claimed).await;
        ear.agrees(&*case.store()).await;
    }
    let (state, steps) = (case.flow(flow).await, case.steps(flow).await);
    assert!(state.is_final(), "all of it is over: {state}, {steps:?}");
}

/// The step that it is and the workflow that it has.
async fn a_workflow_within_a_workflow_is_told(case: &Case) {
    let worker = case.worker("w").await;
    let mut ear = Ear::new(&*case.store()).await;
    let flow = case.start(1, json!({ "a": { "workflow": "inner" }, "b": { "needs": ["a"] } })).await;
    let nested = case.claim_nested(&worker).await;
    let inner = super::ad_hoc(2, super::definition(json!({ "x": {} })));
    case.begin(windlass_core::NewWorkflow { parent: Some(token(&nested)), ..inner }).await;
    ear.agrees(&*case.store()).await;
    case.work(&worker, completed("1")).await;
    case.work(&worker, completed("1")).await;
    ear.agrees(&*case.store()).await;
    let (state, steps) = (case.flow(flow).await, case.steps(flow).await);
    assert!(state.is_final(), "all of it is over: {state}, {steps:?}");
}

/// Refused, repeated, told about, or looked at.
async fn what_changes_nothing_tells_nothing(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.submit(case.task_with_key("k")).await;
    let claimed = case.claim_one(&worker).await;
    let mut last = listen(case).await;
    let early = told(case, &mut last).await.len();
    case.store().submit(vec![case.task_with_key("k")]).await.unwrap();
    let batch = vec![case.task(), NewTask { id, ..case.task() }];
    case.store().submit(batch).await.unwrap_err();
    case.report(&claimed, details("1")).await.unwrap();
    case.apply(Command::Expire { task: id, lease: 1 }).await.unwrap_err();
    case.apply(Command::Delete { task: id }).await.unwrap_err();
    case.store().heartbeat(worker.clone(), vec![(id, 1)]).await.unwrap();
    case.store().reconcile(None, 100).await.unwrap();
    case.snapshot().await;
    assert_eq!(told(case, &mut last).await, [], "after {early} from before");
    case.complete(&claimed).await;
    assert_eq!(told_of(case, &mut last, id).await, [("completed", 1)]);
    case.complete(&claimed).await;
    case.apply(report(&claimed, details("2"))).await.unwrap_err();
    assert_eq!(told(case, &mut last).await, []);
}

/// What is gone has no state.
async fn deleting_tells_nothing(case: &Case) {
    let mut last = listen(case).await;
    let id = case.bring(case.task(), State::Cancelled).await;
    case.bring(case.task(), State::Completed).await;
    told(case, &mut last).await;
    case.apply(Command::Delete { task: id }).await.unwrap();
    case.pass(1);
    let retention = Retention::default().keep(State::Completed, Duration::ZERO).unwrap();
    assert_eq!(case.store().prune(retention.clone(), 9).await.unwrap(), 1);
    assert_eq!(told(case, &mut last).await, []);
}

/// None twice, none missing; a batch is cut anywhere.
async fn pages_of_any_size_have_no_gaps(case: &Case) {
    let begun = listen(case).await;
    case.submit_many(5).await;
    let worker = case.worker("w").await;
    for claimed in case.claim(&worker, 3).await {
        case.complete(&claimed).await;
    }
    let mut last = begun;
    let all = told(case, &mut last).await;
    assert_eq!(all.len(), 5 + 3 + 3);
    for limit in (1..=12).chain([limits::PAGE]) {
        let mut last = begun;
        let again = told_by(case, &*case.store(), &mut last, limit).await;
        let ours: Vec<Event> = again.into_iter().filter(|event| event.namespace == Name::default()).collect();
        assert_eq!(ours, all, "by {limit}");
    }
}

/// Reading takes nothing away.
async fn everybody_is_told_the_same(case: &Case) {
    let other = case.second().await;
    let (mut here, mut there) = (listen(case).await, other.events(None, 1).await.unwrap().last);
    case.submit_many(3).await;
    let ours = told(case, &mut here).await;
    let theirs = told_by(case, &*other, &mut there, 100).await;
    let theirs: Vec<Event> = theirs.into_iter().filter(|event| event.namespace == Name::default()).collect();
    assert_eq!((ours.len(), theirs), (3, ours));
}

/// Who goes on after a crash of the store misses nothing, and neither does who crashed itself.
async fn a_place_outlives_a_crash(case: &Case) {
    let mut last = listen(case).await;
    let first = case.submit(case.task()).await;
    case.crash().await;
    let second = case.submit(case.task()).await;
    case.crash().await;
    let subjects: Vec<Subject> = told(case, &mut last).await.iter().map(|event| read(event).0).collect();
    assert_eq!(subjects, [Subject::Task(first), Subject::Task(second)]);
}

/// Also if that process has never asked for events.
async fn what_another_process_does_is_told(case: &Case) {
    let other = case.second().await;
    other.submit(vec![case.task()]).await.unwrap();
    let mut last = listen(case).await;
    let id = other.submit(vec![case.task()]).await.unwrap()[0].id;
    assert_eq!(told_of(case, &mut last, id).await, [("pending", 0)]);
    let worker = case.worker("w").await;
    let taken = Command::Claim { task: id, worker };
    other.apply(vec![taken]).await.unwrap().remove(0).unwrap();
    assert_eq!(told_of(case, &mut last, id).await, [("claimed", 1)]);
}

/// For as long as somebody asks now and then.
async fn asking_keeps_it_on(case: &Case) {
    let mut last = listen(case).await;
    for minutes in [1, 7, 8, 14, 14, 14] {
        case.pass(minutes * 60);
        let id = case.submit(case.task()).await;
        assert_eq!(told_of(case, &mut last, id).await, [("pending", 0)], "after {minutes} min");
    }
}

/// C54: nobody pays for one who is gone; and who comes back knows that something is missing.
async fn who_was_away_for_too_long_is_told_so(case: &Case) {
    let mut last = listen(case).await;
    let id = case.submit(case.task()).await;
    told(case, &mut last).await;
    case.clock.advance(limits::LISTENED + Duration::from_secs(60));
    case.cancel(id).await.unwrap();
    let told = case.store().events(Some(last), 100).await.unwrap();
    assert!(!told.complete, "what was done meanwhile is not known");
    assert_eq!(told.events, []);
    let mut last = told.last;
    let next = case.submit(case.task()).await;
    assert_eq!(told_of(case, &mut last, next).await, [("pending", 0)], "but from then on everything");
}

/// Another store's id, or one that somebody made up.
async fn who_comes_from_elsewhere_is_told_so(case: &Case) {
    let mut last = listen(case).await;
    let id = case.submit(case.task()).await;
    told(case, &mut last).await;
    let most = i64::MAX.unsigned_abs();
    let (group, place) = last.numbers();
    for foreign in [
        EventId::new(0, 0),
        EventId::new(1, 1),
        EventId::new(group, most),
        EventId::new(most, place),
        EventId::new(most, most),
    ] {
        let told = case.store().events(Some(foreign), 100).await.unwrap();
        assert!(!told.complete, "{foreign}");
        assert_eq!(
            told.events.first().map(|event| read(event).0),
            Some(Subject::Task(id)),
            "what is known is told"
        );
        assert!(told.last >= last, "{foreign}");
    }
    assert!(case.store().events(Some(last), 100).await.unwrap().complete);
}

/// After an hour; what is kept is told. Events are not counted among what was pruned.
async fn old_events_are_pruned(case: &Case) {
    let begun = listen(case).await;
    let mut last = begun;
    let old = case.submit(case.task()).await;
    assert_eq!(told_of(case, &mut last, old).await, [("pending", 0)]);
    let place = last;
    for _ in 0..6 {
        case.pass(600);
        listen(case).await;
    }
    case.pass(1);
    let new = case.submit(case.task()).await;
    assert!(case.store().events(Some(begun), 100).await.unwrap().complete, "nothing has been deleted yet");
    assert_eq!(case.store().prune(Retention::default(), 1).await.unwrap(), 0);
    // What somebody else's open transaction may come before is told when that is over.
    let asked = std::time::Instant::now();
    let told = loop {
        let told = case.store().events(Some(begun), 100).await.unwrap();
        if !told.events.is_empty() || asked.elapsed() >= SOON {
            break told;
        }
    };
    assert!(!told.complete);
    let subjects: Vec<Subject> = told.events.iter().map(|event| read(event).0).collect();
    assert_eq!(subjects, [Subject::Task(new)], "what is left");
    assert_eq!(
        told_of(case, &mut last, new).await,
        [("pending", 0)],
        "who was there is told the rest: {place}"
    );
}

/// As a text for programs.
async fn an_event_id_survives_being_written_down(case: &Case) {
    let mut last: EventId = listen(case).await.to_string().parse().unwrap();
    let id = case.submit(case.task()).await;
    assert_eq!(told_of(case, &mut last, id).await, [("pending", 0)]);
}

/// Limits: 0 and 1,001 are refused.
async fn a_page_has_one_to_a_thousand_events(case: &Case) {
    let last = listen(case).await;
    for (limit, code) in [
        (0, Some("invalid_task")),
        (1, None),
        (1000, None),
        (1001, Some("invalid_task")),
        (usize::MAX, Some("invalid_task")),
    ] {
        for after in [None, Some(last)] {
            let answer = case.store().events(after, limit).await;
            assert_eq!(answer.err().map(|error| error.code()), code, "limit {limit}");
        }
    }
}

/// Sixteen who submit, claim, finish and cancel through two handles, and two who read by pages meanwhile:
/// what they were told is what was done.
async fn nothing_is_missing_in_a_race(case: &Case) {
    const EACH: u64 = 12;
    let (mut last, stores) = (listen(case).await, [case.store(), case.second().await]);
    let begun = last;
    let working = (0..16_u64).map(|n| {
        let store = stores[usize::try_from(n % 2).unwrap()].clone();
        tokio::spawn(async move { one_of_many(&*store, n, EACH).await })
    });
    let working: Vec<_> = working.collect();
    let reading = {
        let (store, mut last) = (case.store(), last);
        let count = usize::try_from(16 * EACH * 3).unwrap();
        tokio::spawn(async move {
            let (mut all, begun) = (Vec::new(), std::time::Instant::now());
            while all.len() < count && begun.elapsed() < SOON * 3 {
                let told = store.events(Some(last), 7).await.unwrap();
                assert!(told.complete);
                last = told.last;
                all.extend(told.events);
            }
            all
        })
    };
    for one in working {
        one.await.unwrap();
    }
    let meanwhile = reading.await.unwrap();
    let afterwards = told(case, &mut last).await;
    assert_eq!(meanwhile, afterwards, "who reads meanwhile is told the same as who reads afterwards");
    let ids: BTreeSet<EventId> = meanwhile.iter().map(|event| event.id).collect();
    assert_eq!(ids.len(), meanwhile.len(), "none twice after {begun}");
    let mut ways: BTreeMap<Subject, Vec<&str>> = BTreeMap::new();
    for (subject, (word, _)) in meanwhile.iter().map(read) {
        ways.entry(subject).or_default().push(word);
    }
    assert_eq!(ways.len(), usize::try_from(16 * EACH).unwrap(), "every task is told");
    for (subject, way) in ways {
        let Subject::Task(task) = subject else { panic!("{subject:?}") };
        let state = case.state(task).await;
        assert_eq!(way, ["pending", "claimed", state.word()], "{task}");
    }
}

/// Submits tasks one after the other, and takes each to its end.
async fn one_of_many(store: &dyn Store, n: u64, each: u64) {
    let worker = WorkerId::new(format!("w{n}")).unwrap();
    let kind = Name::kind(KIND).unwrap();
    store.register(NewWorker { kinds: vec![kind.clone()], ..NewWorker::new(worker.clone()) }).await.unwrap();
    for k in 0..each {
        let task = id(10_000 + n * each + k);
        let new = NewTask::new(task, kind.clone(), windlass_core::Json::default());
        store.submit(vec![new]).await.unwrap();
        let take = Command::Claim { task, worker: worker.clone() };
        store.apply(vec![take]).await.unwrap().remove(0).unwrap();
        let record = store.task(task).await.unwrap().unwrap();
        let claimed = crate::Claimed { task: record.task, payload: record.payload, details: None };
        let end = match k % 3 {
            0 => finish(&claimed, completed("1")),
            1 => finish(&claimed, failed_for_good("x")),
            _ => Command::Cancel { task, by: By::default() },
        };
        store.apply(vec![end]).await.unwrap().remove(0).unwrap();
    }
}
