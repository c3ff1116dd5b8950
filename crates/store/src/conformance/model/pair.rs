//! The store under test and the specification, side by side: the same operation for both, then every
//! difference that can be seen from outside.

use std::fmt::Debug;
use std::sync::Arc;

use windlass_core::{
    By, Command, Entity, Executions, Name, Retention, State, Steering, TaskId, Timestamp, WorkerId,
    WorkflowId, WorkflowState,
};

use super::operation::{Answer, Operation};
use super::random::Random;
use super::world::{ENTITIES, KEYS, KINDS, NAMESPACES, QUEUES, TAGS, WORKERS, World};
use crate::conformance::{Case, invariants};
use crate::{
    Catalog, Clock, Filter, ManualClock, MemoryStore, Page, Reads, Result, Store, Turn, WorkflowFilter,
};

/// Two stores that must not differ.
pub(super) struct Pair<'a> {
    case: &'a Case,
    model: MemoryStore,
    clock: Arc<ManualClock>,
}

impl<'a> Pair<'a> {
    /// The case's store, which is empty, and a fresh model.
    pub(super) fn new(case: &'a Case) -> Self {
        let clock = Arc::new(ManualClock::new(case.now()));
        Self { case, model: MemoryStore::new(clock.clone()), clock }
    }

    /// The last term that was given, or 0.
    pub(super) async fn term(&self) -> u64 {
        self.model.leader().await.unwrap().map_or(0, |leader| leader.term)
    }

    /// The store under test.
    pub(super) fn store(&self) -> Arc<dyn Store> {
        self.case.store()
    }

    /// Sets both clocks.
    pub(super) fn set_clock(&self, to: Timestamp) {
        self.case.clock.set(to);
        self.clock.set(to);
    }

    /// Does `operation` to both, compares the answers and the rows that they name, and answers.
    pub(super) async fn carry_out(&self, operation: &Operation) -> Answer {
        match operation {
            Operation::Clock(to) => self.set_clock(*to),
            Operation::Crash => self.case.crash().await,
            _ => {}
        }
        let expected = operation.run(&self.model).await;
        let answer = operation.run(&*self.case.store()).await;
        same("the answer", &answer, &expected);
        let mut workflows = Vec::new();
        for id in operation.touched(&expected) {
            self.compare_record(id).await;
            // What happens to one step may happen to all.
            let workflow = WorkflowId::of(id);
            if self.model.workflow(workflow).await.unwrap().is_some() && !workflows.contains(&workflow) {
                workflows.push(workflow);
            }
        }
        let is_whole = matches!(operation, Operation::Start(_) | Operation::Steer(..));
        for workflow in workflows {
            self.compare_workflow(workflow, is_whole).await;
        }
        match operation {
            Operation::Register(_) | Operation::Heartbeat(..) | Operation::Deregister(_) => {
                self.compare_workers().await;
            }
            Operation::Campaign(..) | Operation::Resign(..) => self.compare_leader().await,
            Operation::Pause(..) => self.compare_paused().await,
            Operation::SetSchedule(_) | Operation::RemoveSchedule(..) | Operation::Fire(..) => {
                self.compare_schedules().await;
            }
            _ => {}
        }
        expected
    }

    async fn compare_workers(&self) {
        let (tested, model) = (self.case.store().workers().await, self.model.workers().await);
        same_each("the workers", &tested.unwrap(), &model.unwrap());
    }

    async fn compare_leader(&self) {
        same("the leader", &self.case.store().leader().await, &self.model.leader().await);
    }

    async fn compare_paused(&self) {
        same("the paused queues", &self.case.store().paused().await, &self.model.paused().await);
    }

    async fn compare_schedules(&self) {
        let (tested, model) = (self.case.store().schedules().await, self.model.schedules().await);
        same_each("the schedules", &tested.unwrap(), &model.unwrap());
    }

    /// A workflow with its history, and all of its tasks; with theirs, if that is wanted.
    async fn compare_workflow(&self, id: WorkflowId, with_histories: bool) {
        let tested = self.case.store();
        same(&format!("workflow {id}"), &tested.workflow(id).await, &self.model.workflow(id).await);
        let filter = Filter { workflow: Some(id), ..Filter::default() };
        let page = Page { limit: 100, after: None, oldest_first: true };
        let listing = self.model.tasks(filter.clone(), page).await;
        same(&format!("the tasks of {id}"), &tested.tasks(filter, page).await, &listing);
        for task in listing.unwrap().tasks.iter().filter(|_| with_histories) {
            self.compare_record(task.id).await;
        }
    }

    /// All workflows and definitions.
    async fn compare_workflows(&self) {
        let (tested, model) = (self.case.store(), &self.model);
        let rows = (invariants::dump_workflows(&*tested).await, invariants::dump_workflows(model).await);
        same_each("the workflows", &rows.0, &rows.1);
    }

    async fn compare_definitions(&self) {
        let (tested, model) = (self.case.store(), &self.model);
        for namespace in NAMESPACES.map(Name::stored) {
            let lines = model.definitions(namespace.clone(), None).await.unwrap();
            same_each("the definitions", &tested.definitions(namespace.clone(), None).await.unwrap(), &lines);
            // Those of earlier sequences are as they were.
            for line in lines.iter().rev().take(2) {
                let versions = model.definitions(namespace.clone(), Some(line.name.clone())).await;
                let known = tested.definitions(namespace.clone(), Some(line.name.clone())).await;
                same("the versions", &known, &versions);
                let newest = model.definition(namespace.clone(), line.name.clone(), None).await;
                same(
                    "the newest",
                    &tested.definition(namespace.clone(), line.name.clone(), None).await,
                    &newest,
                );
            }
        }
    }

    async fn compare_record(&self, id: TaskId) {
        let (tested, model) = (self.case.store().task(id).await, self.model.task(id).await);
        same(&format!("task {id}"), &tested, &model);
    }

    /// Compares all rows and their counts.
    pub(super) async fn compare_rows(&self) {
        let (tested, model) = (self.case.store(), &self.model);
        let rows = (invariants::dump(&*tested).await, invariants::dump(model).await);
        same_each("the rows", &rows.0, &rows.1);
        same_each("the counts", &tested.counts().await.unwrap(), &model.counts().await.unwrap());
        self.compare_workflows().await;
        let workflows = (tested.workflow_counts().await.unwrap(), model.workflow_counts().await.unwrap());
        same_each("the counts of workflows", &workflows.0, &workflows.1);
        let since = Timestamp::from_micros(0);
        let mut namespaces: Vec<_> = workflows.0.iter().map(|count| Some(count.namespace.clone())).collect();
        namespaces.dedup();
        namespaces.push(None);
        for namespace in namespaces {
            let what = format!("the activity in {namespace:?}");
            let answers =
                (tested.activity(since, namespace.clone()).await, model.activity(since, namespace).await);
            same(&what, &answers.0, &answers.1);
        }
        let ready = (
            tested.ready_workflows(None, None, 1_000).await.unwrap(),
            model.ready_workflows(None, None, 1_000).await.unwrap(),
        );
        same_each("the ready workflows", &ready.0, &ready.1);
        for (of_steps, together) in [(true, None), (true, Some(1)), (false, None), (false, Some(2))] {
            let (namespace, name, version) = (None, None, None);
            let wanted = Executions { of_steps, since, limit: 1_000, namespace, name, version, together };
            let slow = (tested.executions(wanted.clone()).await, model.executions(wanted).await);
            same_each("the slowest", &slow.0.unwrap(), &slow.1.unwrap());
        }
    }

    /// Compares everything that can be read. `world` knows all that ever was; `random` chooses what to list.
    pub(super) async fn compare(&self, world: &World, random: &mut Random) {
        let tasks = &world.tasks;
        self.compare_rows().await;
        self.compare_definitions().await;
        let (tested, model) = (self.case.store(), &self.model);
        self.compare_workers().await;
        self.compare_leader().await;
        self.compare_paused().await;
        self.compare_schedules().await;
        for limit in [0, 1, 7, 1000] {
            same(&format!("due({limit})"), &tested.due(limit).await, &model.due(limit).await);
        }
        for id in tasks {
            let expected = model.facts(*id).await;
            same(&format!("the facts of {id}"), &tested.facts(*id).await, &expected);
            // The answer follows from the facts unless a store has its own way, so a sample is enough.
            if random.chance(10) {
                same(&format!("explain({id})"), &tested.explain(*id).await, &model.explain(*id).await);
            }
        }
        self.compare_names(&*tested).await;
        for _ in 0..3 {
            self.compare_listing(&*tested, &world.workflows, random).await;
            self.compare_workflow_listing(&*tested, random).await;
        }
        self.compare_nested(&*tested).await;
        for _ in 0..3 {
            self.compare_found(&*tested, world.seed, random).await;
        }
        if !tasks.is_empty() {
            let some: Vec<TaskId> = (0..10).map(|_| random.pick(tasks)).collect();
            same("results", &tested.results(some.clone()).await, &model.results(some).await);
        }
    }

    /// Every key and every entity.
    async fn compare_names(&self, tested: &dyn Store) {
        for namespace in NAMESPACES.map(Name::stored) {
            for kind in KINDS.map(Name::stored) {
                for key in KEYS {
                    let found = self.model.find(namespace.clone(), kind.clone(), key.into()).await;
                    let what = format!("find({namespace}, {kind}, {key:?})");
                    same(&what, &tested.find(namespace.clone(), kind.clone(), key.into()).await, &found);
                }
            }
            for name in ["flow", "Flow"].map(Name::stored) {
                for key in KEYS {
                    let found = self.model.find_workflow(namespace.clone(), name.clone(), key.into()).await;
                    let what = format!("find_workflow({namespace}, {name}, {key:?})");
                    same(
                        &what,
                        &tested.find_workflow(namespace.clone(), name.clone(), key.into()).await,
                        &found,
                    );
                }
            }
            for entity in ENTITIES {
                let entity: Entity = entity.parse().unwrap();
                let known = self.model.has_entity(namespace.clone(), entity.clone()).await;
                let what = format!("has_entity({namespace}, {entity})");
                same(&what, &tested.has_entity(namespace.clone(), entity.clone()).await, &known);
                for (after, limit) in
                    [(None, 0), (None, 9), (Some(entity.clone()), 1), (Some(entity.clone()), 9)]
                {
                    let listed = self.model.entities(namespace.clone(), after.clone(), limit).await;
                    let what = format!("entities({namespace}, {after:?}, {limit})");
                    same(&what, &tested.entities(namespace.clone(), after.clone(), limit).await, &listed);
                }
            }
        }
    }

    /// A random listing, page by page. Pages may be cut differently, so only the whole is compared.
    async fn compare_listing(&self, tested: &dyn Store, workflows: &[WorkflowId], random: &mut Random) {
        let mut filter = random_filter(random, self.clock.now());
        if !workflows.is_empty() && random.chance(30) {
            filter.workflow = Some(random.pick(workflows));
        }
        let limit = random.pick(&[0, 1, 2, 3, 7, 50, 1000, 1001]);
        let page = Page { limit, after: None, oldest_first: random.chance(50) };
        let expected = listed(&self.model, &filter, page).await;
        let what = format!("the listing of {filter:?} by {limit}, oldest first: {}", page.oldest_first);
        same(&what, &listed(tested, &filter, page).await, &expected);
    }

    /// A random listing of workflows, page by page.
    async fn compare_workflow_listing(&self, tested: &dyn Store, random: &mut Random) {
        let filter = WorkflowFilter {
            states: if random.chance(50) { random.some_of(&WorkflowState::ALL) } else { Vec::new() },
            namespace: random.chance(30).then(|| random.pick(&NAMESPACES.map(Name::stored))),
            name: random.chance(30).then(|| random.pick(&["flow", "Flow"].map(Name::stored))),
            parent: None,
        };
        let page = Page { limit: random.pick(&[0, 1, 2, 50]), after: None, oldest_first: random.chance(50) };
        let expected = listed_workflows(&self.model, &filter, page).await;
        let what = format!("the listing of {filter:?} by {page:?}");
        same(&what, &listed_workflows(tested, &filter, page).await, &expected);
    }

    /// What is ready, and what was slow, of a random namespace and definition, since a random moment.
    async fn compare_found(&self, tested: &dyn Store, seed: u64, random: &mut Random) {
        let names = ["flow", "Flow", &format!("a-{seed}"), &format!("b-{seed}")].map(Name::stored);
        let namespace = random.chance(50).then(|| random.pick(&NAMESPACES.map(Name::stored)));
        let name = random.chance(50).then(|| random.pick(&names));
        let limit = random.pick(&[0, 1, 3, 1_000]);
        let (of, by) = (namespace.as_ref(), name.as_ref());
        let what = format!("the ready workflows of {of:?} {by:?} by {limit}");
        let expected = self.model.ready_workflows(of.cloned(), by.cloned(), limit).await;
        same(&what, &tested.ready_workflows(of.cloned(), by.cloned(), limit).await, &expected);
        let wanted = Executions {
            of_steps: random.chance(50),
            since: self.clock.now().minus(std::time::Duration::from_secs(random.pick(&[
                1,
                60,
                3_600,
                1 << 30,
            ]))),
            limit,
            namespace,
            name,
            version: random.pick(&[None, None, Some(""), Some("1"), Some("2"), Some("v")]).map(Into::into),
            together: random.pick(&[None, None, Some(0), Some(1), Some(2), Some(5)]),
        };
        let expected = self.model.executions(wanted.clone()).await;
        same(&format!("the slowest of {wanted:?}"), &tested.executions(wanted).await, &expected);
    }

    /// The newest workflows that are steps, by their steps.
    async fn compare_nested(&self, tested: &dyn Store) {
        let page = Page { limit: 50, ..Page::default() };
        let newest = self.model.workflows(WorkflowFilter::default(), page).await.unwrap().workflows;
        for parent in newest.iter().filter_map(|workflow| workflow.parent).take(3) {
            let filter = WorkflowFilter { parent: Some(parent), ..WorkflowFilter::default() };
            let expected = listed_workflows(&self.model, &filter, page).await;
            same(
                &format!("the workflows of {parent}"),
                &listed_workflows(tested, &filter, page).await,
                &expected,
            );
        }
    }

    /// What must hold in any store. It campaigns, so both are asked, to keep them alike.
    pub(super) async fn check_invariants(&self) {
        invariants::check(&self.model, &*self.clock).await;
        invariants::check(&*self.case.store(), &*self.case.clock).await;
    }

    /// The operations that leave nothing but the leader's lease and definitions. `end` is later than anything
    /// that happened.
    pub(super) async fn wiping(&self, end: Timestamp) -> Vec<Operation> {
        let mut operations = Vec::new();
        for record in invariants::dump_workflows(&self.model).await {
            if !record.workflow.state.is_final() {
                operations.push(Operation::Steer(record.workflow.id, Steering::Cancel, By::default()));
            }
        }
        let records = invariants::dump(&self.model).await;
        let lone: Vec<_> = records.iter().filter(|record| record.task.spec.workflow.is_none()).collect();
        for some in lone.chunks(100) {
            let ends = some
                .iter()
                .map(|record| record.task.id)
                .flat_map(|task| [Command::Cancel { task, by: By::default() }, Command::Delete { task }]);
            operations.push(Operation::Turn(Turn { commands: ends.collect(), ..Turn::default() }));
        }
        let finals = State::ALL.into_iter().filter(|state| state.is_final());
        let keep = |keep: Retention, state| keep.keep(state, std::time::Duration::ZERO).unwrap();
        operations.push(Operation::Clock(end));
        operations.push(Operation::Prune(finals.fold(Retention::default(), keep), 1000));
        let workers = self.model.workers().await.unwrap().into_iter();
        operations.extend(workers.map(|worker| Operation::Deregister(worker.id)));
        let paused = self.model.paused().await.unwrap().into_iter();
        operations.extend(paused.map(|(namespace, queue)| Operation::Pause(namespace, queue, false)));
        for namespace in NAMESPACES.map(Name::stored) {
            let forget =
                |entity: &str| Operation::SetEntity(namespace.clone(), entity.parse().unwrap(), false);
            operations.extend(ENTITIES.map(forget));
        }
        let schedules = self.model.schedules().await.unwrap().into_iter();
        operations.extend(schedules.map(|one| Operation::RemoveSchedule(one.namespace, one.name)));
        operations
    }
}

/// All ids of a listing, by following its cursors; or the error of its first page.
async fn listed(store: &dyn Store, filter: &Filter, mut page: Page) -> Result<Vec<TaskId>> {
    let mut ids = Vec::new();
    loop {
        let listing = store.tasks(filter.clone(), page).await?;
        assert!(listing.tasks.len() <= page.limit, "a page holds at most what was asked for");
        ids.extend(listing.tasks.into_iter().map(|task| task.id));
        assert!(listing.next.is_none() || listing.next != page.after, "a cursor moves on");
        page.after = listing.next;
        if page.after.is_none() {
            return Ok(ids);
        }
    }
}

/// The same for workflows.
async fn listed_workflows(
    store: &dyn Store,
    filter: &WorkflowFilter,
    mut page: Page,
) -> Result<Vec<WorkflowId>> {
    let mut ids = Vec::new();
    loop {
        let listing = store.workflows(filter.clone(), page).await?;
        ids.extend(listing.workflows.into_iter().map(|workflow| workflow.id));
        assert!(listing.next.is_none() || listing.next != page.after, "a cursor moves on");
        page.after = listing.next;
        if page.after.is_none() {
            return Ok(ids);
        }
    }
}

fn random_filter(random: &mut Random, now: Timestamp) -> Filter {
    let mut filter = Filter::default();
    if random.chance(50) {
        filter.states = random.some_of(&State::ALL);
    }
    if random.chance(40) {
        filter.namespace = Some(random.pick(&NAMESPACES.map(Name::stored)));
    }
    if random.chance(40) {
        filter.queue = Some(random.pick(&QUEUES.map(Name::stored)));
    }
    if random.chance(40) {
        filter.kind = Some(random.pick(&KINDS.map(Name::stored)));
    }
    match random.below(7) {
        0 => filter.entity = Some(random.pick(&ENTITIES).parse().unwrap()),
        1 => filter.tag = Some(random.pick(&TAGS).into()),
        2 => filter.updated_before = Some(now),
        4 => filter.worker = Some(WorkerId::new(random.pick(&WORKERS)).unwrap()),
        3 => filter.updated_before = Some(now.minus(std::time::Duration::from_secs(60))),
        _ => {}
    }
    filter
}

/// Panics with both sides if they differ.
fn same<T: PartialEq + Debug>(what: &str, tested: &T, model: &T) {
    assert!(tested == model, "{what} differs\n  the store: {tested:?}\n  the model: {model:?}");
}

/// The same for lists: shows the first difference only, because the lists are long.
fn same_each<T: PartialEq + Debug>(what: &str, tested: &[T], model: &[T]) {
    let longest = tested.len().max(model.len());
    if let Some(at) = (0..longest).find(|at| tested.get(*at) != model.get(*at)) {
        let (tested, model) = (tested.get(at), model.get(at));
        panic!("{what} differ at {at} of {longest}\n  the store: {tested:#?}\n  the model: {model:#?}");
    }
}
