//! What must hold of workflows and their tasks.

use std::collections::{BTreeMap, HashSet};

use windlass_core::{
    Counts, Entry, Join, Place, Reason, State, Task, TaskId, Timestamp, Waits, Workflow, WorkflowEntry,
    WorkflowId, WorkflowState,
};

use crate::{Filter, Page, Record, Store, WorkflowCount, WorkflowFilter, WorkflowRecord};

/// All workflows, oldest first.
pub async fn dump_workflows(store: &dyn Store) -> Vec<WorkflowRecord> {
    let (mut records, mut page) = (Vec::new(), Page { limit: 100, after: None, oldest_first: true });
    loop {
        let listing = store.workflows(WorkflowFilter::default(), page).await.unwrap();
        for workflow in listing.workflows {
            let record = store.workflow(workflow.id).await.unwrap().expect("what is listed is there");
            assert_eq!(record.workflow, workflow, "a listing shows the row");
            records.push(record);
        }
        page.after = listing.next;
        if page.after.is_none() {
            return records;
        }
    }
}

/// I10, I11: every workflow and its tasks.
pub(super) async fn check(store: &dyn Store, records: &[Record]) {
    let workflows = dump_workflows(store).await;
    let mut tasks: BTreeMap<WorkflowId, Vec<&Record>> = BTreeMap::new();
    for record in records {
        if let Some(workflow) = record.task.spec.workflow {
            tasks.entry(workflow).or_default().push(record);
        }
    }
    let mut keys = HashSet::new();
    for record in &workflows {
        let mut own = tasks.remove(&record.workflow.id).unwrap_or_default();
        own.sort_by_key(|record| record.task.id);
        check_row(record);
        check_history(record);
        check_counts(record, &own);
        check_places(record, &own);
        check_waits(record, &own, &workflows);
        check_joins(record, &own);
        check_listing(store, record, &own).await;
        let Workflow { id, namespace, name, key, .. } = &record.workflow;
        if let Some(key) = key {
            assert!(keys.insert((namespace.clone(), name.clone(), key.clone())), "I8: two have key {key:?}");
            let found = store.find_workflow(namespace.clone(), name.clone(), key.into()).await.unwrap();
            assert_eq!(found, Some(*id), "I8: key {key:?} finds its workflow");
        }
    }
    assert!(tasks.is_empty(), "steps of no workflow: {:?}", tasks.keys());
    check_workflow_counts(&workflows, &store.workflow_counts().await.unwrap());
}

/// I20: counts of workflows equal rows.
fn check_workflow_counts(records: &[WorkflowRecord], counts: &[WorkflowCount]) {
    let mut expected: BTreeMap<_, u64> = BTreeMap::new();
    for WorkflowRecord { workflow, .. } in records {
        *expected.entry((&workflow.namespace, &workflow.name, workflow.state)).or_default() += 1;
    }
    let counted = counts
        .iter()
        .map(|WorkflowCount { namespace, name, state, workflows }| ((namespace, name, *state), *workflows));
    assert!(counted.eq(expected), "I20: {counts:?} are not the counts of workflows, in order");
}

fn check_row(WorkflowRecord { workflow, blueprint, .. }: &WorkflowRecord) {
    let Workflow { id, state, counts, .. } = workflow;
    assert_eq!(blueprint.definition().name, workflow.name, "{id}: it follows its definition");
    assert_eq!(workflow.finished_at.is_some(), state.is_final(), "{id}: a finish time iff final ({state})");
    assert!(workflow.owner.is_none() || state.is_active(), "C36 {id}: an owner beside {state}");
    assert!(workflow.parent.is_some() == (workflow.nesting > 0), "{id}: what is within another has a parent");
    let derived = WorkflowState::of(counts);
    match state {
        WorkflowState::Complete => assert_eq!(derived, *state, "I11 {id}: {counts:?}"),
        WorkflowState::Cancelled | WorkflowState::ResolvedManually => {
            assert_eq!(counts.settled(), counts.total(), "I11 {id}: {state} with {counts:?}");
        }
        WorkflowState::Error => {
            let moving = counts.active + counts.timed + counts.nested;
            assert_eq!(moving, 0, "I11 {id}: in error with {counts:?}");
        }
        // Somebody moves it by hand.
        _ if workflow.owner.is_some() => {}
        _ => assert_eq!(derived, *state, "I11 {id}: its state follows from {counts:?}"),
    }
}

/// I9, I11: the history is whole, legal, its fold equals the row, and only what is in error is opened again.
fn check_history(WorkflowRecord { workflow, history, .. }: &WorkflowRecord) {
    let id = workflow.id;
    let first = history.first().unwrap();
    assert_eq!((first.from, first.to), (None, WorkflowState::Pending), "C37 {id}: the first entry");
    assert_eq!(first.at, workflow.created_at, "I9 {id}: the first entry is the start");
    for (n, entry) in (1..).zip(history) {
        assert_eq!(entry.seq, n, "I9 {id}: without gaps");
    }
    for pair in history.windows(2) {
        let [WorkflowEntry { to: from, at: before, .. }, WorkflowEntry { to, at, .. }] = pair else {
            unreachable!()
        };
        assert_eq!(pair[1].from, Some(*from), "I9 {id}: each continues the one before");
        assert!(from.may_become(*to), "I9 {id}: from {from} to {to}");
        assert!(before <= at, "I9 {id}: time goes on");
        assert!(!from.is_final() || *from == WorkflowState::Error, "I11 {id}: it ends once");
    }
    let last = history.last().unwrap();
    assert_eq!((last.to, last.seq), (workflow.state, workflow.entries), "I9 {id}: the fold is the row");
    assert!(last.at <= workflow.updated_at, "I9 {id}: changed since");
    if workflow.state.is_final() {
        assert_eq!(workflow.finished_at, Some(last.at), "I11 {id}: finished when the last entry says");
    }
}

/// I11, I20: counts equal rows.
fn check_counts(WorkflowRecord { workflow, .. }: &WorkflowRecord, own: &[&Record]) {
    let mut counts = Counts::default();
    for Record { task, .. } in own {
        let number = match (task.status.state, task.status.waits) {
            (State::Waiting, Waits::Workflow) => &mut counts.nested,
            (State::Waiting, _) => &mut counts.waiting,
            (State::Pending | State::Claimed | State::Running, _) => &mut counts.active,
            (State::Scheduled | State::WaitingForRetry, _) => &mut counts.timed,
            (State::Completed | State::ResolvedManually, _) => &mut counts.done,
            (State::Skipped, _) => &mut counts.skipped,
            (State::Cancelled, _) => &mut counts.cancelled,
            (State::Failed | State::DeadLetter, _) => &mut counts.failed,
        };
        *number += 1;
    }
    assert_eq!(workflow.counts, counts, "I11 {}: counts equal rows", workflow.id);
}

/// Every step is there once, and items without gaps where a step has made them.
fn check_places(WorkflowRecord { workflow, blueprint, .. }: &WorkflowRecord, own: &[&Record]) {
    let id = workflow.id;
    let mut places = own.iter().map(|record| record.task.place().unwrap()).peekable();
    for step in 0..blueprint.len() {
        assert_eq!(places.next(), Some(Place { step, item: None }), "{id}: every step is there");
        let mut items = 0;
        while let Some(Place { item: Some(item), .. }) =
            places.next_if(|place| place.step == step && place.item.is_some())
        {
            assert_eq!(item, items, "{id}: items without gaps");
            items += 1;
        }
        let made = own.iter().find(|record| record.task.id == id.step(step)).unwrap();
        let made = made.history.iter().any(|entry| entry.reason == Reason::Expanded);
        assert_eq!(made, items > 0, "{id}: step {step} has made its {items} items");
    }
    assert_eq!(places.next(), None, "{id}: nothing else");
    let steps = &blueprint.definition().steps;
    for Record { task, .. } in own {
        let step = &steps[usize::try_from(Place::of(task.id).step).unwrap()];
        assert_eq!(task.spec.kind, step.kind_in(&workflow.version), "{}: the kind of its step", task.id);
        assert_eq!(task.spec.namespace, workflow.namespace, "{}: the namespace of its workflow", task.id);
    }
}

/// I12: what waits has reason to.
fn check_waits(record: &WorkflowRecord, own: &[&Record], all: &[WorkflowRecord]) {
    let WorkflowRecord { workflow, .. } = record;
    for Record { task, .. } in own {
        let Task { id, status, .. } = task;
        match status.waits {
            Waits::Resume => assert!(workflow.paused, "I12 {id}: waits for a resume that has been"),
            Waits::Workflow => {
                let children = || all.iter().filter(|other| other.workflow.parent == Some(*id));
                let open = children().filter(|child| !child.workflow.state.is_final()).count();
                assert!(open > 0, "I12 {id}: waits for none of its {} workflows", children().count());
            }
            Waits::Items { settled, of } => {
                let step = Place::of(*id).step;
                let items = own.iter().filter(|item| {
                    Place::of(item.task.id).step == step && Place::of(item.task.id).item.is_some()
                });
                let open = |state: State| !state.is_final() || state == State::Failed;
                let open = |state| open(state) || state == State::DeadLetter;
                let states: Vec<State> = items.map(|item| item.task.status.state).collect();
                let left = states.iter().filter(|state| open(**state)).count();
                let known = (usize::try_from(settled).unwrap(), usize::try_from(of).unwrap());
                assert_eq!(known, (states.len() - left, states.len()), "I12 {id}: it knows its items");
                assert!(left > 0, "I12 {id}: waits for items that are settled");
            }
            Waits::Parents(_) | Waits::Nothing => {}
        }
        let starts = status.state == State::Pending && workflow.paused;
        assert!(!starts, "{id}: can be claimed though its workflow is paused");
    }
}

/// I10: a step that was ever offered had enough parents. What is done stays done, so that can be seen at any
/// time.
fn check_joins(WorkflowRecord { workflow, blueprint, .. }: &WorkflowRecord, own: &[&Record]) {
    for step in 0..blueprint.len() {
        let history = history_of(own, workflow.id.step(step));
        if history.iter().any(|entry| matches!(entry.to, State::Pending | State::Claimed)) {
            let is_ready =
                is_ready(blueprint, step, |parent| history_of(own, workflow.id.step(parent)), None);
            // An operator may have started over what was stopped before its time had come.
            let is_forced =
                history.iter().any(|entry| matches!(entry.reason, Reason::Retried | Reason::Reopened));
            assert!(is_ready || is_forced, "I10 {}: step {step} was offered too early", workflow.id);
        }
    }
}

/// I10, where the clock never went back: at the moment at which a step was first offered, its parents had
/// ended.
pub async fn check_order(store: &dyn Store) {
    for workflow in dump_workflows(store).await {
        let filter = || Filter { workflow: Some(workflow.workflow.id), ..Filter::default() };
        let (mut own, mut page) = (Vec::new(), Page { limit: 1000, after: None, oldest_first: true });
        loop {
            let listing = store.tasks(filter(), page).await.unwrap();
            for task in listing.tasks.iter().filter(|task| Place::of(task.id).item.is_none()) {
                own.push(store.task(task.id).await.unwrap().unwrap());
            }
            page.after = listing.next;
            if page.after.is_none() {
                break;
            }
        }
        check_order_of(&workflow, &own);
    }
}

/// [`check_order`] for a workflow and `records` with all of its steps.
pub fn check_order_of(WorkflowRecord { workflow, blueprint, .. }: &WorkflowRecord, records: &[Record]) {
    let mut own: Vec<&Record> =
        records.iter().filter(|record| record.task.spec.workflow == Some(workflow.id)).collect();
    own.sort_by_key(|record| record.task.id);
    for step in 0..blueprint.len() {
        let history = history_of(&own, workflow.id.step(step));
        if let Some(entry) = history.iter().find(|entry| entry.reason == Reason::Ready) {
            let parents = |parent| history_of(&own, workflow.id.step(parent));
            let is_ready = is_ready(blueprint, step, parents, Some(entry.at));
            assert!(is_ready, "I10 {}: step {step} became ready at {}", workflow.id, entry.at);
        }
    }
}

fn history_of<'a>(own: &[&'a Record], id: TaskId) -> &'a [Entry] {
    let at = own.binary_search_by_key(&id, |record| record.task.id).expect("every step is there");
    &own[at].history
}

/// Whether the join of a step was satisfied, by a moment or ever.
fn is_ready<'a>(
    blueprint: &windlass_core::Blueprint,
    step: u32,
    history: impl Fn(u32) -> &'a [Entry],
    by: Option<Timestamp>,
) -> bool {
    let parents = blueprint.graph().parents(step);
    let ever = |parent: u32, is: fn(State) -> bool| {
        history(parent).iter().any(|entry| is(entry.to) && by.is_none_or(|by| entry.at <= by))
    };
    let is_done = |state| matches!(state, State::Completed | State::ResolvedManually);
    let done = parents.iter().filter(|parent| ever(**parent, is_done)).count();
    match blueprint.step(step).unwrap().join {
        Join::All => done == parents.len(),
        Join::Any => done > 0 || parents.is_empty(),
        Join::AtLeast(n) => done >= usize::try_from(n).unwrap(),
        Join::AllDone => parents.iter().all(|parent| ever(*parent, State::is_final)),
    }
}

/// The tasks of a workflow are listed in the order of their places.
async fn check_listing(store: &dyn Store, record: &WorkflowRecord, own: &[&Record]) {
    let filter = Filter { workflow: Some(record.workflow.id), ..Filter::default() };
    let (mut listed, mut page) = (Vec::new(), Page { limit: 700, after: None, oldest_first: true });
    loop {
        let listing = store.tasks(filter.clone(), page).await.unwrap();
        listed.extend(listing.tasks.into_iter().map(|task| task.id));
        page.after = listing.next;
        if page.after.is_none() {
            break;
        }
    }
    let ids: Vec<TaskId> = own.iter().map(|record| record.task.id).collect();
    assert_eq!(listed, ids, "{}: its tasks in the order of their places", record.workflow.id);
}
