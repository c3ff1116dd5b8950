//! A workflow as the tree shows it: a line for each step, whatever it is made of.

use std::collections::HashMap;
use std::time::Duration;

use windlass::{Place, State, Task, TaskId, Timestamp, Waits};

use super::flow::{Flow, is_waiting};
use super::follow::Look;
use crate::streams::LastLines;

/// All that is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) name: String,
    /// When this began to be watched.
    pub(crate) began: Timestamp,
    /// Whether an operator has paused it.
    pub(crate) paused: bool,
    /// By level, then in the order of the file; beneath a step that is a workflow, the steps of that.
    pub(crate) lines: Vec<Line>,
}

/// One step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) level: u32,
    /// Whether it is a step of a workflow that is a step.
    pub(crate) is_within: bool,
    pub(crate) name: String,
    pub(crate) mode: Mode,
    pub(crate) began: Option<Timestamp>,
    pub(crate) ended: Option<Timestamp>,
    pub(crate) attempt: u32,
    pub(crate) attempts: Option<u32>,
    /// How many of its items are over, of how many.
    pub(crate) items: Option<(u32, u32)>,
    /// When it is tried again.
    pub(crate) due: Option<Timestamp>,
    /// What it last said, or what went wrong.
    pub(crate) said: Option<String>,
    /// Its programs that run.
    pub(crate) running: Vec<TaskId>,
}

/// How a step is shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) enum Mode {
    Failed,
    Running,
    Retrying,
    Ready,
    Completed,
    Skipped,
    Cancelled,
    #[default]
    Waiting,
}

impl Mode {
    fn of(state: State, waits: Waits) -> Self {
        match state {
            State::Waiting if matches!(waits, Waits::Items { .. } | Waits::Workflow) => Self::Running,
            State::Waiting => Self::Waiting,
            State::Pending | State::Scheduled => Self::Ready,
            State::Claimed | State::Running => Self::Running,
            State::WaitingForRetry => Self::Retrying,
            State::Completed | State::ResolvedManually => Self::Completed,
            State::Failed | State::DeadLetter => Self::Failed,
            State::Cancelled => Self::Cancelled,
            State::Skipped => Self::Skipped,
        }
    }

    /// In a sum of several.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Running => "running",
            Self::Retrying => "to be retried",
            Self::Ready => "ready",
            Self::Completed => "completed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
            Self::Waiting => "waiting",
        }
    }

    /// A state of its colour.
    pub(crate) fn state(self) -> State {
        match self {
            Self::Failed => State::Failed,
            Self::Running => State::Running,
            Self::Retrying => State::WaitingForRetry,
            Self::Ready => State::Pending,
            Self::Completed => State::Completed,
            Self::Skipped | Self::Waiting => State::Skipped,
            Self::Cancelled => State::Cancelled,
        }
    }
}

/// What is known of the items of a step.
#[derive(Debug, Default)]
struct Items {
    over: u32,
    all: u32,
    running: Vec<TaskId>,
}

/// So many programs of one step are asked what they last said.
const ASKED: usize = 16;

impl View {
    pub(crate) fn of(look: &Look, began: Timestamp) -> Self {
        let workflow = &look.flow.inspection.record.workflow;
        let lines = Self::lines(&look.flow, &look.began, None);
        Self { name: workflow.name.to_string(), began, paused: workflow.paused, lines }
    }

    /// The steps of a workflow, those of a workflow within it beneath the step that it is. `above` is the
    /// level of the step that this one is.
    fn lines(flow: &Flow, began: &HashMap<TaskId, Timestamp>, above: Option<u32>) -> Vec<Line> {
        let inspection = &flow.inspection;
        let mut items: HashMap<u32, Items> = HashMap::new();
        for task in &inspection.tasks {
            let place = Place::of(task.id);
            if place.item.is_some() {
                let items = items.entry(place.step).or_default();
                items.all += 1;
                items.over += u32::from(task.status.state.is_final());
                if task.status.state.is_held() && items.running.len() < ASKED {
                    items.running.push(task.id);
                }
            }
        }
        let graph = inspection.record.blueprint.graph();
        let steps = inspection.tasks.iter().filter(|task| Place::of(task.id).item.is_none());
        let mut lines: Vec<(Line, &Task)> = steps
            .map(|task| {
                let (status, number) = (&task.status, Place::of(task.id).step);
                let Items { over, all, mut running } = items.remove(&number).unwrap_or_default();
                if status.state.is_held() {
                    running.push(task.id);
                }
                let line = Line {
                    level: graph.level(number) + above.map_or(0, |above| above + 1),
                    is_within: above.is_some(),
                    name: inspection.name(task),
                    mode: Mode::of(status.state, status.waits),
                    began: began.get(&task.id).copied().or(status.started_at).or(status.claimed_at),
                    ended: status.finished_at,
                    attempt: status.attempt,
                    attempts: task.spec.max_attempts.map(Into::into),
                    items: (all > 0).then_some((over, all)),
                    due: status.due_at,
                    said: status.error.clone(),
                    running,
                };
                (line, task)
            })
            .collect();
        lines.sort_by_key(|(line, _)| line.level);
        // When it is over, the step says all there is to say.
        let within = |task: &Task| flow.within.get(&task.id).filter(|_| is_waiting(task));
        let with_those_beneath = lines.into_iter().flat_map(|(line, task)| {
            let beneath = within(task).map(|flow| Self::lines(flow, began, Some(line.level)));
            std::iter::once(line).chain(beneath.into_iter().flatten())
        });
        with_those_beneath.collect()
    }

    /// Adds what programs have said meanwhile.
    pub(crate) fn hear(&mut self, lines: &LastLines) {
        for line in self.lines.iter_mut().filter(|line| !line.running.is_empty()) {
            if let Some(said) = line.running.iter().rev().find_map(|task| lines.of(*task)) {
                line.said = Some(said);
            }
        }
    }
}

/// How long something took, as exactly as one wants to know: `250 ms`, `1.2 s`, `12 s`, `3 min 5 s`, `2 h 3
/// min`.
pub(crate) fn took(time: Duration) -> String {
    let (millis, seconds) = (time.as_millis(), time.as_secs());
    match seconds {
        0 => format!("{millis} ms"),
        1..10 => format!("{seconds}.{} s", time.subsec_millis() / 100),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::testing::TestEngine;
    use windlass::{Definition, Step};

    /// The lines of a workflow: level, mode, name, and whether it is beneath another.
    async fn drawn(engine: &TestEngine, id: windlass::WorkflowId) -> Vec<String> {
        let flow = Flow::of(&engine.client(), id).await.unwrap();
        let lines = View::lines(&flow, &HashMap::new(), None);
        let words = |line: &Line| {
            let mark = if line.is_within { "- " } else { "" };
            format!("{}{mark}{} {}", "  ".repeat(line.level as usize), line.name, line.mode.word())
        };
        lines.iter().map(words).collect()
    }

    #[tokio::test]
    async fn steps_of_a_workflow_within_are_beneath_its_step_while_it_runs() {
        let engine =
            TestEngine::new(|worker| worker.starts_workflows().handle_kind("x", |_| async { Ok(1) }));
        let engine = engine.await.unwrap();
        let client = engine.client();
        let inner = Definition::builder("inner")
            .step(Step::task("b", "x").needs(["a"]))
            .step(Step::task("a", "x").priority(5))
            .build();
        client.define(inner.unwrap()).await.unwrap();
        let outer = Definition::builder("outer")
            .step(Step::task("before", "nobody"))
            .step(Step::workflow("nest", "inner").needs(["first"]))
            .step(Step::task("after", "x").needs(["nest"]))
            .step(Step::task("first", "x"))
            .build();
        let id = client.start_ad_hoc(outer.unwrap()).await.unwrap().id;
        let beside = ["before ready", "first completed"];
        engine.step().await.unwrap();
        engine.step().await.unwrap();
        assert_eq!(
            drawn(&engine, id).await,
            [&beside[..], &["  nest running", "    - a ready", "      - b waiting", "    after waiting"]]
                .concat()
        );
        engine.drain().await.unwrap();
        assert_eq!(
            drawn(&engine, id).await,
            [&beside[..], &["  nest completed", "    after completed"]].concat()
        );
    }

    #[test]
    fn times_are_as_exact_as_needed() {
        for (millis, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_290, "1.2 s"),
            (59_999, "59 s"),
            (185_000, "3 min 5 s"),
            (7_380_000, "2 h 3 min"),
        ] {
            assert_eq!(took(Duration::from_millis(millis)), text);
        }
    }
}
