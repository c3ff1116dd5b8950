//! The truth table of joins: every rule, every state of one to three parents, paused or not, however the news
//! arrives.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::sync::Arc;

use uuid::Uuid;
use windlass_core::{
    Blueprint, Cascade, Json, NewWorkflow, Parents, Source, State, Task, TaskId, Timestamp, Waits, Wanted,
    Within, Workflow, WorkflowId,
};

const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

/// What a single parent means to its child: `start`, `wait` or `skip`.
const ONE: &str = "
                   all    any    at_least_1  all_done
waiting            wait   wait   wait        wait
scheduled          wait   wait   wait        wait
pending            wait   wait   wait        wait
claimed            wait   wait   wait        wait
running            wait   wait   wait        wait
waiting_for_retry  wait   wait   wait        wait
completed          start  start  start       start
failed             wait   wait   wait        start
dead_letter        wait   wait   wait        start
cancelled          skip   skip   skip        start
skipped            skip   skip   skip        start
resolved_manually  start  start  start       start
";

/// What two mean, by what each is to it: done, gone (skipped, cancelled), failed, open.
const TWO: &str = "
              all    any    at_least_1  at_least_2  all_done
done_done     start  start  start       start       start
done_gone     skip   start  start       skip        start
done_failed   wait   start  start       wait        start
done_open     wait   start  start       wait        wait
gone_gone     skip   skip   skip        skip        start
gone_failed   skip   wait   wait        skip        start
gone_open     skip   wait   wait        skip        wait
failed_failed wait   wait   wait        wait        start
failed_open   wait   wait   wait        wait        wait
open_open     wait   wait   wait        wait        wait
";

/// What three mean.
const THREE: &str = "
                     all    any    at_least_1  at_least_2  at_least_3  all_done
done_done_done       start  start  start       start       start       start
done_done_gone       skip   start  start       start       skip        start
done_done_failed     wait   start  start       start       wait        start
done_done_open       wait   start  start       start       wait        wait
done_gone_gone       skip   start  start       skip        skip        start
done_gone_failed     skip   start  start       wait        skip        start
done_gone_open       skip   start  start       wait        skip        wait
done_failed_failed   wait   start  start       wait        wait        start
done_failed_open     wait   start  start       wait        wait        wait
done_open_open       wait   start  start       wait        wait        wait
gone_gone_gone       skip   skip   skip        skip        skip        start
gone_gone_failed     skip   wait   wait        skip        skip        start
gone_gone_open       skip   wait   wait        skip        skip        wait
gone_failed_failed   skip   wait   wait        wait        skip        start
gone_failed_open     skip   wait   wait        wait        skip        wait
gone_open_open       skip   wait   wait        wait        skip        wait
failed_failed_failed wait   wait   wait        wait        wait        start
failed_failed_open   wait   wait   wait        wait        wait        wait
failed_open_open     wait   wait   wait        wait        wait        wait
open_open_open       wait   wait   wait        wait        wait        wait
";

/// What a state is to a child, as the larger tables call it.
fn sort(state: State) -> &'static str {
    match state {
        State::Completed | State::ResolvedManually => "done",
        State::Skipped | State::Cancelled => "gone",
        State::Failed | State::DeadLetter => "failed",
        _ => "open",
    }
}

/// The cell of a table.
fn cell(table: &str, row: &str, column: &str) -> String {
    let mut lines = table.lines().filter(|line| !line.is_empty());
    let at = lines.next().unwrap().split_whitespace().position(|word| word == column).unwrap();
    let row = lines.find(|line| line.split_whitespace().next() == Some(row));
    row.unwrap_or_else(|| panic!("no row {row:?}")).split_whitespace().nth(at + 1).unwrap().into()
}

fn wanted(states: &[State], join: &str) -> String {
    if let [state] = states {
        return cell(ONE, state.word(), join);
    }
    let order = ["done", "gone", "failed", "open"];
    let mut sorts: Vec<&str> = states.iter().map(|state| sort(*state)).collect();
    sorts.sort_by_key(|sort| order.iter().position(|known| known == sort));
    cell(if states.len() == 2 { TWO } else { THREE }, &sorts.join("_"), join)
}

/// A workflow in which the last step needs all others, which are running.
struct Scene {
    blueprint: Arc<Blueprint>,
    workflow: Workflow,
    tasks: Vec<Task>,
}

fn scene(parents: usize, join: &str, paused: bool) -> Scene {
    let join = match join.strip_prefix("at_least_") {
        Some(n) => format!(r#"{{"at_least": {n}}}"#),
        None => format!("{join:?}"),
    };
    let names: Vec<String> = (0..parents).map(|n| format!("\"p{n}\"")).collect();
    let steps: Vec<String> = names.iter().map(|name| format!(r#"{name}: {{"task": "work"}}"#)).collect();
    let text = format!(
        r#"{{"name": "joins", "steps": {{{}, "child": {{"task": "work", "needs": [{}], "join": {join}}}}}}}"#,
        steps.join(", "),
        names.join(", ")
    );
    let blueprint = Blueprint::stored(&text).unwrap();
    let id = WorkflowId::new(Uuid::from_u128(1 << 90));
    let source = Source::AdHoc(Box::new(blueprint.definition().clone()));
    let begun =
        NewWorkflow::new(id, source, Json::default()).admit(&blueprint, "1".into(), Within::default(), NOW);
    let mut tasks: Vec<Task> = begun.steps.into_iter().map(|(task, ..)| task).collect();
    tasks[..parents].iter_mut().for_each(|task| task.status.state = State::Running);
    let workflow = Workflow { paused, ..begun.workflow };
    Scene { blueprint: Arc::new(blueprint), workflow, tasks }
}

impl Scene {
    fn child(&self) -> &Task {
        self.tasks.last().unwrap()
    }

    fn drive(&mut self, mut cascade: Cascade) {
        while let Some(asked) = cascade.wanted() {
            let is_asked = |id: &TaskId| match &asked {
                Wanted::Tasks(ids) => ids.contains(id),
                Wanted::Unsettled(range) => range.contains(id),
                Wanted::Results(_) => panic!("nobody waits for results"),
            };
            cascade.give(self.tasks.iter().filter(|task| is_asked(&task.id)).cloned().collect());
        }
        let done = cascade.done();
        for (_, change) in done.tasks {
            self.tasks.iter_mut().find(|task| task.id == change.id).unwrap().status = change.after;
        }
        if let Some(change) = done.workflow {
            self.workflow = change.after;
        }
    }

    fn cascade(&self) -> Cascade {
        Cascade::new(self.blueprint.clone(), self.workflow.clone(), NOW)
    }

    /// The parents come to be where they are, all at once or one after the other.
    fn tell(&mut self, states: &[State], at_once: bool) {
        let mut cascade = self.cascade();
        for (number, state) in states.iter().enumerate() {
            let before = self.tasks[number].clone();
            let task = &mut self.tasks[number];
            task.status.state = *state;
            task.status.waits = if *state == State::Waiting { Waits::Resume } else { Waits::Nothing };
            cascade.note(&before, &task.status);
            if !at_once {
                self.drive(cascade);
                cascade = self.cascade();
            }
        }
        self.drive(cascade);
    }

    /// The parents are where they are, and nobody has told.
    fn find(&mut self, states: &[State]) {
        for (task, state) in self.tasks.iter_mut().zip(states) {
            task.status.state = *state;
        }
        let mut cascade = self.cascade();
        cascade.recount(self.tasks.clone());
        self.drive(cascade);
    }

    fn check(&self, wanted: &str, context: &str) {
        let status = &self.child().status;
        match wanted {
            "start" if self.workflow.paused => {
                assert_eq!((status.state, status.waits), (State::Waiting, Waits::Resume), "{context}");
            }
            "start" => assert_eq!(status.state, State::Pending, "{context}"),
            "skip" => assert_eq!(status.state, State::Skipped, "{context}"),
            _ => {
                assert_eq!(status.state, State::Waiting, "{context}");
                assert!(matches!(status.waits, Waits::Parents(_)), "{context}");
            }
        }
    }
}

/// All lists of `n` states.
fn lists(n: usize) -> Vec<Vec<State>> {
    let mut lists = vec![Vec::new()];
    for _ in 0..n {
        lists = lists
            .into_iter()
            .flat_map(|list: Vec<State>| State::ALL.map(|state| [&list[..], &[state]].concat()))
            .collect();
    }
    lists
}

#[test]
fn joins_hold_for_all_states_of_up_to_three_parents() {
    let mut cells = 0;
    for parents in 1..=3 {
        let joins = ["all", "any", "all_done", "at_least_1", "at_least_2", "at_least_3"];
        for join in joins.iter().take(3 + parents) {
            for (number, states) in lists(parents).into_iter().enumerate() {
                let (wanted, paused) = (wanted(&states, join), number % 2 == 0);
                // Each with and without a pause for few parents; every other for many.
                let pauses = if parents < 3 { vec![false, true] } else { vec![paused] };
                for paused in pauses {
                    let context = format!("{join} of {states:?}, paused: {paused}");
                    let mut found = scene(parents, join, paused);
                    found.find(&states);
                    found.check(&wanted, &context);
                    let mut told = scene(parents, join, paused);
                    told.tell(&states, true);
                    told.check(&wanted, &context);
                    if parents < 3 || number % 5 == 0 {
                        let mut told = scene(parents, join, paused);
                        told.tell(&states, false);
                        told.check(&wanted, &context);
                    }
                    cells += 1;
                }
            }
        }
    }
    assert_eq!(cells, 2 * 4 * 12 + 2 * 5 * 144 + 6 * 1728);
}

/// A step that was started stays started, and one that was skipped stays skipped, whatever becomes of its
/// parents then.
#[test]
fn what_was_decided_stays_decided() {
    let mut any = scene(2, "any", false);
    any.tell(&[State::Completed, State::Cancelled], false);
    assert_eq!(any.child().status.state, State::Pending);

    let mut over = scene(1, "all_done", false);
    over.tell(&[State::Failed], true);
    over.tell(&[State::Pending], true);
    assert_eq!(over.child().status.state, State::Pending, "its parent is retried, and it was started");

    let mut all = scene(1, "all", false);
    all.tell(&[State::Cancelled], true);
    all.tell(&[State::Pending], true);
    all.tell(&[State::Completed], true);
    assert_eq!(all.child().status.state, State::Skipped);
}

/// The tally goes back when a parent is opened again.
#[test]
fn a_parent_that_is_opened_again_is_waited_for_again() {
    let mut over = scene(2, "all_done", false);
    over.tell(&[State::Failed, State::Running], true);
    assert_eq!(over.child().status.waits, Waits::Parents(Parents { met: 1, lost: 0 }));
    over.tell(&[State::Pending, State::Running], true);
    assert_eq!(over.child().status.waits, Waits::Parents(Parents { met: 0, lost: 0 }));
    let mut some = scene(3, "at_least_1", false);
    some.tell(&[State::Cancelled, State::Skipped, State::Running], true);
    assert_eq!(some.child().status.waits, Waits::Parents(Parents { met: 0, lost: 2 }));
    some.tell(&[State::Pending, State::Skipped, State::Running], true);
    assert_eq!(some.child().status.waits, Waits::Parents(Parents { met: 0, lost: 1 }));
}
