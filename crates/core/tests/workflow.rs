//! A second opinion on workflows: what must follow from a change is worked out again from nothing, the naive
//! way.
//!
//! The evaluator knows who needs whom, and for each task one word. After every operation it looks at all of
//! them until nothing changes any more: there are no counters, no shifts, no rows that were read or not.
//! Random workflows live random lives on both sides, and after each turn every task, the tallies of those
//! that wait, the counts, the state and the history of the workflow, and what its parent is told must be the
//! same. A look at all rows must then find nothing to put right (I12), and put right whatever was damaged on
//! purpose.
//!
//! `WINDLASS_SEED=n cargo test -p windlass-core --test workflow` repeats one workflow; a failure prints its
//! seed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;
use windlass_core::{
    Before, Blueprint, By, Cascade, Cascaded, Changes, Command, Counts, Definition, Ended, Entry, Join, Json,
    Name, NewWorkflow, OnFailure, Outcome, Parents, Place, Source, State, Status, Steering, Step, Task,
    TaskId, Timestamp, Token, Waits, Wanted, Within, WorkerId, Workflow, WorkflowEntry, WorkflowId,
    WorkflowState, conclude, history, nest, transition,
};

/// Workflows of one run.
const WORKFLOWS: u64 = 10_000;

/// splitmix64, as in the suite of the stores.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }
}

// ---- The naive evaluator: it sees neither Cascade nor Parents nor Counts. ----

/// Where a task is, in one word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Is {
    ForParents,
    ForResume,
    ForItems,
    ForWorkflow,
    Ready,
    Held,
    Later,
    Done,
    Failed,
    Cancelled,
    Skipped,
}

impl Is {
    fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled | Self::Skipped)
    }

    fn of(status: &Status) -> Self {
        match (status.state, status.waits) {
            (State::Waiting, Waits::Parents(_)) => Self::ForParents,
            (State::Waiting, Waits::Items { .. }) => Self::ForItems,
            (State::Waiting, Waits::Workflow) => Self::ForWorkflow,
            (State::Waiting, Waits::Resume) => Self::ForResume,
            (State::Waiting, Waits::Nothing) => panic!("waits for nothing"),
            (_, Waits::Nothing) => match status.state {
                State::Pending => Self::Ready,
                State::Claimed | State::Running => Self::Held,
                State::Scheduled | State::WaitingForRetry => Self::Later,
                State::Completed | State::ResolvedManually => Self::Done,
                State::Failed | State::DeadLetter => Self::Failed,
                State::Cancelled => Self::Cancelled,
                State::Skipped => Self::Skipped,
                State::Waiting => unreachable!(),
            },
            (state, waits) => panic!("{state} and waits for {waits:?}"),
        }
    }
}

/// What becomes of a step whose parents are where they are: the truth table, by hand.
fn verdict(join: Join, parents: &[Is]) -> Is {
    let done = parents.iter().filter(|is| **is == Is::Done).count();
    let gone = parents.iter().filter(|is| matches!(is, Is::Skipped | Is::Cancelled)).count();
    let over = parents.iter().filter(|is| is.is_over()).count();
    let (starts, never) = match join {
        Join::All => (done == parents.len(), gone > 0),
        Join::Any => (done > 0 || parents.is_empty(), gone == parents.len()),
        Join::AtLeast(n) => {
            let n = usize::try_from(n).unwrap();
            (done >= n, parents.len() - gone < n)
        }
        Join::AllDone => (over == parents.len(), false),
    };
    match (starts, never) {
        (true, _) => Is::Ready,
        (false, true) => Is::Skipped,
        (false, false) => Is::ForParents,
    }
}

#[derive(Clone, PartialEq, Debug)]
struct Naive {
    needs: Vec<Vec<u32>>,
    joins: Vec<Join>,
    fails_fast: bool,
    is_paused: bool,
    tasks: BTreeMap<(u32, Option<u32>), Is>,
    state: WorkflowState,
    /// Something has failed since the last look.
    has_failed: bool,
    /// Where tasks were at the last look.
    last: BTreeMap<(u32, Option<u32>), Is>,
}

impl Naive {
    fn ready(&self) -> Is {
        if self.is_paused { Is::ForResume } else { Is::Ready }
    }

    fn set(&mut self, place: Place, is: Is) {
        self.tasks.insert((place.step, place.item), is);
        self.has_failed |= is == Is::Failed;
    }

    fn parents(&self, step: u32) -> Vec<Is> {
        let needs = &self.needs[usize::try_from(step).unwrap()];
        needs.iter().map(|parent| self.tasks[&(*parent, None)]).collect()
    }

    fn items(&self, step: u32) -> Vec<Is> {
        let all = self.tasks.range((step, Some(0))..(step + 1, None));
        all.map(|(_, is)| *is).collect()
    }

    /// Steps that wait for parents start or are skipped, again and again until nothing changes.
    fn start_or_skip(&mut self) {
        loop {
            let steps = 0..u32::try_from(self.needs.len()).unwrap();
            let waiting: Vec<u32> =
                steps.filter(|step| self.tasks[&(*step, None)] == Is::ForParents).collect();
            let mut changed = false;
            for step in waiting {
                let join = self.joins[usize::try_from(step).unwrap()];
                let is = match verdict(join, &self.parents(step)) {
                    Is::Ready => self.ready(),
                    is => is,
                };
                changed |= is != Is::ForParents;
                self.tasks.insert((step, None), is);
            }
            if !changed {
                return;
            }
        }
    }

    /// Steps whose items need not be waited for are done; items that nobody waits for are cancelled.
    fn gather(&mut self) -> bool {
        let done = |is: &Is| matches!(is, Is::Done | Is::Cancelled | Is::Skipped);
        let steps: Vec<u32> = self.tasks.keys().filter(|(_, item)| item.is_none()).map(|(n, _)| *n).collect();
        let mut changed = false;
        for step in steps {
            let is = self.tasks[&(step, None)];
            if is == Is::ForItems && self.items(step).iter().all(done) {
                self.tasks.insert((step, None), Is::Done);
                changed = true;
            } else if is != Is::ForItems {
                let items = self.tasks.range_mut((step, Some(0))..(step + 1, None));
                items.filter(|(_, is)| !is.is_over()).for_each(|(_, is)| *is = Is::Cancelled);
            }
        }
        changed
    }

    /// How many are where, in the order of [`Counts`].
    fn counts(&self) -> [usize; 8] {
        let count = |wanted: &[Is]| self.tasks.values().filter(|is| wanted.contains(is)).count();
        [
            count(&[Is::ForParents, Is::ForResume, Is::ForItems]),
            count(&[Is::ForWorkflow]),
            count(&[Is::Ready, Is::Held]),
            count(&[Is::Later]),
            count(&[Is::Done]),
            count(&[Is::Skipped]),
            count(&[Is::Cancelled]),
            count(&[Is::Failed]),
        ]
    }

    /// What the workflow is if nobody has ended it.
    fn derived(&self) -> WorkflowState {
        let has = |wanted: &[Is]| self.tasks.values().any(|is| wanted.contains(is));
        if has(&[Is::Ready, Is::Held]) {
            WorkflowState::StepsInProcess
        } else if has(&[Is::Later]) {
            WorkflowState::WaitingForRetry
        } else if has(&[Is::ForWorkflow]) {
            WorkflowState::WaitingForDependencies
        } else if has(&[Is::Failed]) {
            WorkflowState::BlockedByFailures
        } else if has(&[Is::ForParents, Is::ForItems, Is::ForResume]) {
            WorkflowState::WaitingForDependencies
        } else {
            WorkflowState::Complete
        }
    }

    /// All that follows from what was set; `ended` is what somebody said about the workflow as a whole.
    fn follow(&mut self, ended: Option<WorkflowState>) {
        let before = Self { tasks: self.last.clone(), ..self.clone() }.counts();
        self.start_or_skip();
        let fails = self.fails_fast && self.has_failed;
        if fails || matches!(ended, Some(WorkflowState::Cancelled | WorkflowState::ResolvedManually)) {
            // The end of all: what is not over is cancelled, whatever it waits for.
            self.tasks.values_mut().filter(|is| !is.is_over()).for_each(|is| *is = Is::Cancelled);
        } else {
            while self.gather() {
                self.start_or_skip();
            }
        }
        let was_over = matches!(
            self.state,
            WorkflowState::Complete | WorkflowState::Cancelled | WorkflowState::ResolvedManually
        );
        self.state = match ended {
            Some(state) => state,
            None if fails => WorkflowState::Error,
            None if was_over => self.state,
            None if self.state == WorkflowState::Error && self.counts() == before => WorkflowState::Error,
            None => self.derived(),
        };
        self.has_failed = false;
        self.last = self.tasks.clone();
    }
}

/// The arrows of a workflow, written down again from docs/document-002.md (and reopening, C51).
fn is_arrow(from: WorkflowState, to: WorkflowState) -> bool {
    let way = format!("{from}>{to}");
    let by_anyone = ["cancelled", "resolved_manually"].contains(&to.word());
    let over = ["complete", "error", "cancelled", "resolved_manually"].contains(&from.word());
    let arrows = "pending>initializing initializing>enqueuing_steps initializing>waiting_for_dependencies \
         initializing>complete enqueuing_steps>steps_in_process enqueuing_steps>error \
         steps_in_process>evaluating_results steps_in_process>waiting_for_retry \
         evaluating_results>enqueuing_steps evaluating_results>waiting_for_dependencies \
         evaluating_results>blocked_by_failures evaluating_results>complete \
         waiting_for_dependencies>evaluating_results waiting_for_retry>enqueuing_steps \
         waiting_for_retry>evaluating_results blocked_by_failures>evaluating_results \
         blocked_by_failures>error error>evaluating_results";
    arrows.split_whitespace().any(|arrow| arrow == way) || (by_anyone && !over)
}

// ---- The other side: Cascade, driven over a map of rows as a store would. ----

#[derive(Clone)]
struct Rows {
    blueprint: Arc<Blueprint>,
    workflow: Workflow,
    entries: Vec<WorkflowEntry>,
    tasks: BTreeMap<TaskId, Task>,
    histories: BTreeMap<TaskId, Vec<Entry>>,
    results: BTreeMap<TaskId, Json>,
    now: Timestamp,
}

impl Rows {
    fn cascade(&self) -> Cascade {
        Cascade::new(self.blueprint.clone(), self.workflow.clone(), self.now)
    }

    /// Writes what a command did to one task, and tells the cascade in the order in which it happens.
    fn write(&mut self, before: &Task, changes: Changes, cascade: &mut Cascade) {
        if let Some(range) = changes.cleared {
            let gone: Vec<TaskId> = self.tasks.range(range).map(|(id, _)| *id).collect();
            for id in gone {
                cascade.note_gone(&self.tasks.remove(&id).unwrap());
                self.histories.remove(&id);
                self.results.remove(&id);
            }
        }
        for change in changes.tasks {
            assert_eq!(change.id, before.id);
            cascade.note(before, &change.after);
            self.tasks.get_mut(&change.id).unwrap().status = change.after;
            self.histories.get_mut(&change.id).unwrap().extend(change.entries);
            change.result.into_iter().for_each(|result| drop(self.results.insert(change.id, result)));
        }
        for (task, _, entry) in changes.created {
            cascade.note_new(&task);
            self.histories.insert(task.id, vec![entry]);
            assert!(self.tasks.insert(task.id, task).is_none(), "made twice");
        }
    }

    /// Gives a cascade what it wants and writes what it says.
    fn drive(&mut self, mut cascade: Cascade) -> Cascaded {
        let mut asked = 0;
        while let Some(wanted) = cascade.wanted() {
            asked += 1;
            assert!(asked < 1000, "a cascade comes to an end");
            match wanted {
                Wanted::Tasks(ids) => {
                    cascade.give(ids.iter().filter_map(|id| self.tasks.get(id).cloned()).collect());
                }
                Wanted::Unsettled(range) => {
                    let open = self.tasks.range(range).map(|(_, task)| task);
                    cascade.give(open.filter(|task| !task.status.state.is_final()).cloned().collect());
                }
                Wanted::Results(ids) => {
                    let results: Vec<_> = ids.iter().map(|id| self.results.get(id).cloned()).collect();
                    cascade.give_results(&results);
                }
            }
        }
        let cascaded = cascade.done();
        let mut written = BTreeSet::new();
        for (before, change) in &cascaded.tasks {
            assert!(written.insert(change.id), "each row is written once");
            let task = self.tasks.get_mut(&change.id).unwrap();
            assert_eq!(task, before, "a row is written as it was seen");
            task.status = change.after.clone();
            self.histories.get_mut(&change.id).unwrap().extend(change.entries.iter().cloned());
            if let Some(result) = &change.result {
                self.results.insert(change.id, result.clone());
            }
        }
        if let Some(change) = &cascaded.workflow {
            assert!(change.after != self.workflow, "no change is no change");
            self.workflow = change.after.clone();
            self.entries.extend(change.entries.iter().cloned());
        }
        cascaded
    }
}

/// A workflow on both sides.
struct Pair {
    random: Random,
    naive: Naive,
    rows: Rows,
    worker: WorkerId,
}

fn random_definition(random: &mut Random) -> Definition {
    let most = random.pick(&[6, 6, 12]);
    let steps = 1 + random.below(most);
    // Needs go to any step that was placed before it in a random order, not in the order of numbers.
    let mut order: Vec<usize> = (0..steps).collect();
    for at in (1..steps).rev() {
        order.swap(at, random.below(at + 1));
    }
    let density = random.pick(&[20, 40, 70]);
    let name = |number: usize| Name::new("step", &format!("s{number}")).unwrap();
    let mut all = vec![Step::default(); steps];
    for (place, number) in order.iter().enumerate() {
        let needs: Vec<Name> =
            order[..place].iter().filter(|_| random.chance(density)).map(|parent| name(*parent)).collect();
        let most = u32::try_from(needs.len()).unwrap();
        let join = match random.below(6) {
            0 if most > 0 => Join::AtLeast(1 + u32::try_from(random.below(needs.len())).unwrap()),
            1 => Join::Any,
            2 => Join::AllDone,
            _ => Join::All,
        };
        let task = Some(Name::kind("work").unwrap());
        all[*number] = Step { name: name(*number), task, needs, join, ..Step::default() };
    }
    Definition {
        name: Name::new("workflow", "random").unwrap(),
        version: None,
        description: None,
        input: None,
        identity: windlass_core::Identity::default(),
        defaults: windlass_core::Defaults {
            retry: windlass_core::Retry { max_attempts: Some(Some(2)), ..windlass_core::Retry::default() },
            ..windlass_core::Defaults::default()
        },
        steps: all,
        on_failure: if random.chance(25) { OnFailure::FailFast } else { OnFailure::FinishIndependent },
    }
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let blueprint = Blueprint::of(random_definition(&mut random)).unwrap();
        let id = WorkflowId::new(Uuid::from_u128(u128::from(seed) << 40));
        let now = Timestamp::from_micros(1_800_000_000_000_000);
        let definition = Box::new(blueprint.definition().clone());
        let mut new = NewWorkflow::new(id, Source::AdHoc(definition), Json::default());
        if random.chance(15) {
            let carried = (0..blueprint.len()).filter(|_| random.chance(30));
            new.carried = carried.map(|step| (step, Json::result("\"old\"").unwrap())).collect();
        }
        let worker = WorkerId::new("w").unwrap();
        if random.chance(30) {
            let other = WorkflowId::new(Uuid::from_u128(1 << 100)).step(0);
            new.parent = Some(Token { task: other, lease: 1, worker: worker.clone() });
        }
        let carried: BTreeSet<u32> = new.carried.iter().map(|(step, _)| *step).collect();
        let naive = Self::naive_of(&blueprint, &carried);
        let begun = new.admit(&blueprint, "1".into(), Within::default(), now);
        let mut rows = Rows {
            blueprint: Arc::new(blueprint),
            workflow: begun.workflow,
            entries: begun.entries,
            tasks: BTreeMap::new(),
            histories: BTreeMap::new(),
            results: BTreeMap::new(),
            now,
        };
        for (task, result, entry) in begun.steps {
            rows.histories.insert(task.id, vec![entry]);
            result.into_iter().for_each(|result| drop(rows.results.insert(task.id, result)));
            rows.tasks.insert(task.id, task);
        }
        Self { random, naive, rows, worker }
    }

    fn naive_of(blueprint: &Blueprint, carried: &BTreeSet<u32>) -> Naive {
        let steps = &blueprint.definition().steps;
        let number =
            |name: &Name| u32::try_from(steps.iter().position(|s| s.name == *name).unwrap()).unwrap();
        let begin = |step| if carried.contains(&step) { Is::Done } else { Is::ForParents };
        let tasks: BTreeMap<_, _> =
            (0..u32::try_from(steps.len()).unwrap()).map(|step| ((step, None), begin(step))).collect();
        let mut naive = Naive {
            needs: steps.iter().map(|step| step.needs.iter().map(number).collect()).collect(),
            joins: steps.iter().map(|step| step.join).collect(),
            fails_fast: blueprint.definition().on_failure == OnFailure::FailFast,
            is_paused: false,
            last: tasks.clone(),
            tasks,
            state: WorkflowState::Pending,
            has_failed: false,
        };
        naive.follow(None);
        naive
    }

    /// Commands for the task: those that can have an effect more often than those that cannot.
    fn wish(&mut self, task: &Task) -> (Command, Option<Is>) {
        let (id, by) = (task.id, By::default());
        let token = Token { task: id, lease: task.status.lease, worker: self.worker.clone() };
        let ready = self.naive.ready();
        let exhausted = task.status.attempt >= 2;
        if task.status.state.is_held() && self.random.chance(70) {
            let may_expand = Place::of(id).item.is_none();
            let items = self.random.below(4);
            let (outcome, is) = match self.random.below(12) {
                0..5 => {
                    let n = self.random.below(100);
                    (Outcome::Completed { result: Json::result(&n.to_string()).unwrap() }, Is::Done)
                }
                5 | 6 => {
                    let retry_after = self.random.chance(50).then_some(Duration::ZERO);
                    let again = if retry_after.is_some() { ready } else { Is::Later };
                    let failed = Outcome::Failed { error: "no".into(), retryable: true, retry_after };
                    (failed, if exhausted { Is::Failed } else { again })
                }
                7 => {
                    (Outcome::Failed { error: "no".into(), retryable: false, retry_after: None }, Is::Failed)
                }
                8 => (Outcome::Skipped { note: "no".into() }, Is::Skipped),
                9 => (Outcome::Cancelled { note: "no".into() }, Is::Cancelled),
                10 => (Outcome::Snoozed { delay: Duration::from_secs(5) }, Is::Later),
                _ if !may_expand => (Outcome::Completed { result: Json::default() }, Is::Done),
                _ => {
                    let is = if items == 0 { Is::Done } else { Is::ForItems };
                    let items = vec![Json::default(); items];
                    (Outcome::Expanded { items, max_parallel: None, lanes: Vec::new() }, is)
                }
            };
            return (Command::Finish { token, outcome, started_at: None }, Some(is));
        }
        match self.random.below(20) {
            0..5 | 14.. => (Command::Claim { task: id, worker: self.worker.clone() }, Some(Is::Held)),
            5 => (Command::Release { token, note: None }, Some(ready)),
            6 => (Command::Cancel { task: id, by }, Some(Is::Cancelled)),
            7 | 8 => (Command::Retry { task: id, force: self.random.chance(80), by }, Some(ready)),
            9 => {
                let result = self.random.chance(50).then(|| Json::result("7").unwrap());
                (Command::Resolve { task: id, result, by }, Some(Is::Done))
            }
            10 => (Command::Skip { task: id, by }, Some(Is::Skipped)),
            11 | 12 => (Command::Promote { task: id }, Some(ready)),
            13 => {
                let has_started = task.status.state == State::Running;
                let is = if exhausted && has_started { Is::Failed } else { ready };
                (Command::Expire { task: id, lease: task.status.lease }, Some(is))
            }
        }
    }

    /// One turn: some commands, then all that follows.
    fn turn(&mut self) -> String {
        let mut cascade = self.rows.cascade();
        let mut told = String::new();
        for _ in 0..self.random.pick(&[1, 1, 1, 2, 3, 6]) {
            let only_open = self.random.chance(70);
            let wanted = |task: &&Task| !only_open || !task.status.state.is_final();
            let ids: Vec<TaskId> = self.rows.tasks.values().filter(wanted).map(|task| task.id).collect();
            if ids.is_empty() {
                continue;
            }
            let task = self.rows.tasks[&self.random.pick(&ids)].clone();
            let place = Place::of(task.id);
            if task.status.state.is_held() && self.random.chance(10) {
                self.nest(&task, &mut cascade);
                told += &format!("nest {place:?}; ");
                continue;
            }
            if task.status.waits == Waits::Workflow && self.random.chance(60) {
                let (ended, is) = match self.random.below(3) {
                    0 => (Ended::Failed { error: "no".into() }, Is::Failed),
                    1 => (Ended::Cancelled { note: "no".into() }, Is::Cancelled),
                    _ => (Ended::Done { result: Json::default() }, Is::Done),
                };
                let changes = conclude(&task, &ended, self.rows.now);
                self.rows.write(&task, changes, &mut cascade);
                self.naive.set(place, is);
                told += &format!("conclude {place:?} {ended:?}; ");
                continue;
            }
            let (command, is) = self.wish(&task);
            let before = Before { workflow: Some(&self.rows.workflow), ..Before::of(&task) };
            let Ok(changes) = transition(&before, &command, self.rows.now) else { continue };
            if changes.tasks.is_empty() {
                continue;
            }
            told += &format!("{place:?} {command:?}; ");
            if changes.cleared.is_some() {
                self.naive.tasks.retain(|(step, item), _| *step != place.step || item.is_none());
            }
            for (item, ..) in &changes.created {
                let is = self.naive.ready();
                self.naive.set(Place::of(item.id), is);
            }
            self.rows.write(&task, changes, &mut cascade);
            self.naive.set(place, is.unwrap());
        }
        let before = self.naive.clone();
        let cascaded = self.rows.drive(cascade);
        self.naive.follow(None);
        self.compare_ends(&before, &cascaded);
        told
    }

    fn nest(&mut self, task: &Task, cascade: &mut Cascade) {
        let token = Token { task: task.id, lease: task.status.lease, worker: self.worker.clone() };
        let before = Before { workflow: Some(&self.rows.workflow), ..Before::of(task) };
        let changes = nest(&before, &token, self.rows.now).unwrap();
        self.rows.write(task, changes, cascade);
        self.naive.set(Place::of(task.id), Is::ForWorkflow);
    }

    /// Something is asked of the whole.
    fn steer(&mut self) -> String {
        let steering = match self.random.below(12) {
            0 => Steering::Cancel,
            1 => Steering::Resolve,
            2..5 => Steering::Pause,
            5..10 => Steering::Resume,
            _ => Steering::GiveUp,
        };
        let mut cascade = self.rows.cascade();
        let (was, before) = (self.naive.state, self.naive.clone());
        let is_over = matches!(
            was,
            WorkflowState::Complete
                | WorkflowState::Error
                | WorkflowState::Cancelled
                | WorkflowState::ResolvedManually
        );
        let (wanted, refusal) = match steering {
            Steering::Cancel => (Some(WorkflowState::Cancelled), "workflow_over"),
            Steering::Resolve => (Some(WorkflowState::ResolvedManually), "workflow_over"),
            Steering::GiveUp if is_over => (Some(WorkflowState::Error), "workflow_over"),
            Steering::GiveUp => (Some(WorkflowState::Error), "workflow_moved"),
            _ => (None, "workflow_over"),
        };
        let is_repeat = wanted == Some(was);
        let is_refused = match steering {
            Steering::GiveUp => !is_repeat && was != WorkflowState::BlockedByFailures,
            _ => is_over && !is_repeat,
        };
        let answer = cascade.steer(&steering, &By::default());
        if is_refused {
            assert_eq!(answer.unwrap_err().code(), refusal, "{steering:?} of {was}");
            return String::new();
        }
        answer.unwrap();
        match steering {
            Steering::Pause => {
                self.naive.is_paused = true;
                let all = self.naive.tasks.values_mut();
                all.filter(|is| **is == Is::Ready).for_each(|is| *is = Is::ForResume);
            }
            Steering::Resume => {
                self.naive.is_paused = false;
                let all = self.naive.tasks.values_mut();
                all.filter(|is| **is == Is::ForResume).for_each(|is| *is = Is::Ready);
            }
            _ => {}
        }
        let cascaded = self.rows.drive(cascade);
        if !is_repeat {
            self.naive.follow(wanted);
        }
        self.compare_ends(&before, &cascaded);
        format!("{steering:?}; ")
    }

    /// What others are told: the parent of a workflow that ends, and the workflows of steps that wait for
    /// them no more.
    fn compare_ends(&self, before: &Naive, cascaded: &Cascaded) {
        let ends = |state: WorkflowState| {
            ["complete", "error", "cancelled", "resolved_manually"].contains(&state.word())
        };
        let ended = match (&cascaded.ended, self.rows.workflow.parent) {
            (Some((step, ended)), Some(parent)) if *step == parent => Some(ended.clone()),
            (None, _) => None,
            (told, parent) => panic!("{told:?} is told, and the parent is {parent:?}"),
        };
        let is_end = self.rows.workflow.parent.is_some() && !ends(before.state) && ends(self.naive.state);
        assert_eq!(ended.is_some(), is_end, "the parent is told once");
        match (ended, self.naive.state) {
            (None, _) => {}
            (Some(Ended::Failed { .. }), WorkflowState::Error)
            | (Some(Ended::Cancelled { .. }), WorkflowState::Cancelled) => {}
            (Some(Ended::Done { result }), WorkflowState::Complete | WorkflowState::ResolvedManually) => {
                assert_eq!(result.as_str(), self.last_results());
            }
            (ended, state) => panic!("{state}, and the parent is told {ended:?}"),
        }
        let abandoned: BTreeSet<TaskId> = cascaded.abandoned.iter().copied().collect();
        for ((step, item), was) in &before.last {
            let is = self.naive.tasks.get(&(*step, *item));
            let left = *was == Is::ForWorkflow && is.is_none_or(|is| is.is_over());
            let id = self.rows.workflow.id.task(Place { step: *step, item: *item });
            assert!(!left || abandoned.contains(&id), "the workflow of step {step} {item:?} goes on");
        }
    }

    /// The results of the steps that nobody needs, by name.
    fn last_results(&self) -> String {
        let definition = self.rows.blueprint.definition();
        let is_needed = |name: &Name| definition.steps.iter().any(|step| step.needs.contains(name));
        let mut fields = Vec::new();
        for (number, step) in (0..).zip(&definition.steps).filter(|(_, step)| !is_needed(&step.name)) {
            if let Some(result) = self.rows.results.get(&self.rows.workflow.id.step(number)) {
                fields.push(format!("\"{}\":{result}", step.name));
            }
        }
        format!("{{{}}}", fields.join(","))
    }

    fn compare(&self) {
        let Rows { workflow, tasks, .. } = &self.rows;
        let is: BTreeMap<_, _> = tasks
            .values()
            .map(|task| (Place::of(task.id), Is::of(&task.status)))
            .map(|(place, is)| ((place.step, place.item), is))
            .collect();
        assert_eq!(is, self.naive.tasks, "where the tasks are");
        assert_eq!(workflow.state, self.naive.state, "where the workflow is");
        assert_eq!(workflow.paused, self.naive.is_paused);
        let Counts { waiting, nested, active, timed, done, skipped, cancelled, failed } = workflow.counts;
        let counts = [waiting, nested, active, timed, done, skipped, cancelled, failed];
        assert_eq!(counts.map(|n| usize::try_from(n).unwrap()), self.naive.counts(), "counts equal rows");
        for task in tasks.values() {
            self.compare_tally(task);
            self.check_history(task);
        }
        self.check_workflow();
    }

    /// What a step that waits knows.
    fn compare_tally(&self, task: &Task) {
        let step = Place::of(task.id).step;
        match task.status.waits {
            Waits::Parents(Parents { met, lost }) => {
                let parents = self.naive.parents(step);
                let counts = |wanted: &[Is]| parents.iter().filter(|is| wanted.contains(is)).count();
                let all_done = self.naive.joins[usize::try_from(step).unwrap()] == Join::AllDone;
                let (real_met, real_lost) = match all_done {
                    true => (counts(&[Is::Done, Is::Failed, Is::Cancelled, Is::Skipped]), 0),
                    false => (counts(&[Is::Done]), counts(&[Is::Cancelled, Is::Skipped])),
                };
                let known = (usize::try_from(met).unwrap(), usize::try_from(lost).unwrap());
                assert_eq!(known, (real_met, real_lost), "step {step} knows its parents");
            }
            Waits::Items { settled, of } => {
                let items = self.naive.items(step);
                let open = |is: &&Is| !is.is_over() || **is == Is::Failed;
                assert_eq!(usize::try_from(of).unwrap(), items.len());
                let known = usize::try_from(settled).unwrap();
                assert_eq!(
                    known,
                    items.len() - items.iter().filter(open).count(),
                    "step {step} and its items"
                );
            }
            _ => {}
        }
    }

    fn check_history(&self, task: &Task) {
        let history = &self.rows.histories[&task.id];
        assert_eq!(history::fault(history), None, "{history:#?}");
        assert_eq!(history.last().unwrap().to, task.status.state);
        assert_eq!(u32::try_from(history.len()).unwrap(), task.status.entries);
        assert_eq!(history::attempts_used(history), task.status.attempt);
    }

    fn check_workflow(&self) {
        let Rows { workflow, entries, .. } = &self.rows;
        assert_eq!(u32::try_from(entries.len()).unwrap(), workflow.entries);
        assert_eq!(entries.last().unwrap().to, workflow.state, "the history ends where it is");
        assert_eq!(entries[0].from, None);
        for (n, pair) in (2..).zip(entries.windows(2)) {
            assert_eq!((pair[1].seq, pair[1].from), (n, Some(pair[0].to)), "no gaps: {entries:#?}");
            assert!(is_arrow(pair[0].to, pair[1].to), "{} to {}: no such arrow", pair[0].to, pair[1].to);
            assert!(pair[0].at <= pair[1].at);
        }
        assert_eq!(workflow.finished_at.is_some(), workflow.state.is_final());
    }

    /// I12: a look at all rows finds nothing.
    fn check_rest(&self) {
        let mut rows = self.rows.clone();
        let mut cascade = rows.cascade();
        assert_eq!(cascade.recount(rows.tasks.values().cloned().collect()), 0, "nothing waits in vain");
        let cascaded = rows.drive(cascade);
        assert!(cascaded.tasks.is_empty() && cascaded.workflow.is_none(), "{cascaded:#?}");
    }

    /// Whether a step would start now if it had not started before.
    fn is_due_to_parents(&self, id: TaskId) -> bool {
        let Place { step, item } = Place::of(id);
        let join = self.naive.joins[usize::try_from(step).unwrap()];
        item.is_none() && verdict(join, &self.naive.parents(step)) == Is::Ready
    }

    /// Damages one row on purpose; a look at all rows finds that and puts it right.
    fn check_repair(&mut self) -> bool {
        if self.rows.workflow.state.is_final() {
            return false;
        }
        let mut rows = self.rows.clone();
        let ids: Vec<TaskId> = rows.tasks.keys().copied().collect();
        let id = self.random.pick(&ids);
        let status = &mut rows.tasks.get_mut(&id).unwrap().status;
        match (status.state, &mut status.waits) {
            (State::Waiting, Waits::Parents(parents)) => match self.random.below(2) {
                0 => parents.met += 1,
                _ => parents.lost += 1,
            },
            (State::Waiting, Waits::Items { settled, .. }) => *settled += 1,
            (State::Pending, _) if self.is_due_to_parents(id) => {
                // As if the end of its last parent had not been told.
                status.state = State::Waiting;
                status.waits = Waits::Parents(Parents::default());
            }
            (State::Pending, _) => {
                status.state = State::Waiting;
                status.waits = Waits::Resume;
            }
            _ => {
                let counts = &mut rows.workflow.counts;
                *(if self.random.chance(50) { &mut counts.done } else { &mut counts.active }) += 1;
            }
        }
        let mut cascade = rows.cascade();
        let repaired = cascade.recount(rows.tasks.values().cloned().collect());
        assert!(repaired > 0, "the damage to {:?} was not seen", Place::of(id));
        rows.drive(cascade);
        let is = |rows: &Rows| rows.tasks.values().map(|task| Is::of(&task.status)).collect::<Vec<_>>();
        assert_eq!(is(&rows), is(&self.rows), "put right");
        let whole = |rows: &Rows| (rows.workflow.state, rows.workflow.counts);
        assert_eq!(whole(&rows), whole(&self.rows), "put right");
        let mut again = rows.cascade();
        assert_eq!(again.recount(rows.tasks.values().cloned().collect()), 0, "once");
        true
    }
}

/// How often things were seen, so that a run is worth something.
#[derive(Default)]
struct Tally {
    operations: usize,
    repairs: usize,
    states: BTreeMap<WorkflowState, usize>,
    tasks: BTreeMap<Is, usize>,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.repairs += other.repairs;
        other.states.into_iter().for_each(|(state, n)| *self.states.entry(state).or_default() += n);
        other.tasks.into_iter().for_each(|(is, n)| *self.tasks.entry(is).or_default() += n);
    }
}

/// The workflows of these seeds; a failure prints the seed and what was done.
fn run(seeds: std::ops::RangeInclusive<u64>) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        let mut told = Vec::new();
        let lived = catch_unwind(AssertUnwindSafe(|| live(seed, &mut tally, &mut told)));
        if let Err(panic) = lived {
            println!("WINDLASS_SEED={seed}\n{}", told.join("\n"));
            std::panic::resume_unwind(panic);
        }
    }
    tally
}

fn live(seed: u64, tally: &mut Tally, told: &mut Vec<String>) {
    let mut pair = Pair::new(seed);
    told.push(format!("{:?}", pair.rows.blueprint.definition().content()));
    pair.compare();
    pair.check_rest();
    for _ in 0..10 + pair.random.below(40) {
        // The clock goes back now and then; histories do not.
        let by = Duration::from_secs(u64::try_from(pair.random.below(20)).unwrap());
        let back = pair.random.chance(10);
        pair.rows.now = if back { pair.rows.now.minus(by) } else { pair.rows.now.plus(by) };
        let operation = if pair.random.chance(8) { pair.steer() } else { pair.turn() };
        if operation.is_empty() {
            continue;
        }
        told.push(operation);
        pair.compare();
        pair.check_rest();
        if pair.random.chance(20) {
            tally.repairs += usize::from(pair.check_repair());
        }
        tally.operations += 1;
        *tally.states.entry(pair.naive.state).or_default() += 1;
        pair.naive.tasks.values().for_each(|is| *tally.tasks.entry(*is).or_default() += 1);
    }
}

#[test]
fn what_follows_is_what_a_naive_look_at_everything_says() {
    let given = std::env::var("WINDLASS_SEED").ok().map(|text| text.parse::<u64>().unwrap());
    let tally = match given {
        Some(seed) => run(seed..=seed),
        None => std::thread::scope(|scope| {
            let half = scope.spawn(|| run(1..=WORKFLOWS / 2));
            let mut tally = run(WORKFLOWS / 2 + 1..=WORKFLOWS);
            tally.add(half.join().unwrap());
            tally
        }),
    };
    let Tally { operations, repairs, states, tasks } = tally;
    println!("{operations} operations compared, {repairs} repairs; {states:?}; {tasks:?}");
    if given.is_none() {
        assert!(operations > 30_000 && repairs > 5_000, "{operations} operations, {repairs} repairs");
        for state in
            ["steps_in_process", "waiting_for_dependencies", "waiting_for_retry", "blocked_by_failures"]
        {
            assert!(states.get(&state.parse().unwrap()).is_some_and(|n| *n > 300), "{state}: {states:?}");
        }
        for state in ["complete", "error", "cancelled", "resolved_manually"] {
            assert!(states.get(&state.parse().unwrap()).is_some_and(|n| *n > 300), "{state}: {states:?}");
        }
        assert_eq!(tasks.len(), 11, "{tasks:?}");
    }
}
