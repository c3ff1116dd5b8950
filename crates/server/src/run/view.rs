//! A workflow as the tree shows it: a line for each step, whatever it is made of.

use std::collections::HashMap;
use std::time::Duration;

use windlass::{Place, State, TaskId, Timestamp, Waits};

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
    /// By level, then in the order of the file.
    pub(crate) lines: Vec<Line>,
}

/// One step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) level: u32,
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
        let (inspection, workflow) = (&look.inspection, &look.inspection.record.workflow);
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
        let mut lines: Vec<Line> = steps
            .map(|task| {
                let (status, number) = (&task.status, Place::of(task.id).step);
                let Items { over, all, mut running } = items.remove(&number).unwrap_or_default();
                if status.state.is_held() {
                    running.push(task.id);
                }
                Line {
                    level: graph.level(number),
                    name: inspection.name(task),
                    mode: Mode::of(status.state, status.waits),
                    began: look.began.get(&task.id).copied().or(status.started_at).or(status.claimed_at),
                    ended: status.finished_at,
                    attempt: status.attempt,
                    attempts: task.spec.max_attempts.map(Into::into),
                    items: (all > 0).then_some((over, all)),
                    due: status.due_at,
                    said: status.error.clone(),
                    running,
                }
            })
            .collect();
        lines.sort_by_key(|line| line.level);
        Self { name: workflow.name.to_string(), began, paused: workflow.paused, lines }
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

/// How long something took, as exactly as one wants to know: `250 ms`, `1.2 s`, `12 s`, `3 min 5 s`, `2 h 3 min`.
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
