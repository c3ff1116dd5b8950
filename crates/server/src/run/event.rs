//! What happened to a step, as its history tells it: in words for people, and as JSON for programs.

use std::time::Duration;

use serde::Serialize;
use windlass::{Entry, Json, Reason, Record, State, TaskId, Timestamp};

use super::view::took;
use crate::escape::plain;
use crate::show::{Seconds, Verbatim};

/// One thing that happened to a step, or to an item of one.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Event {
    pub(crate) at: Timestamp,
    /// The name of the step: `regions`, `regions[3]`, or `regions[3]/fetch` within the workflow that it is.
    pub(crate) step: String,
    task: TaskId,
    /// Which attempt it was about, and how many there may be.
    attempt: u32,
    attempts: Option<u32>,
    what: What,
}

/// What happened.
#[derive(Clone, PartialEq, Debug)]
enum What {
    Started,
    Completed {
        took: Option<Duration>,
        result: Option<Json>,
    },
    Failed {
        error: String,
    },
    Retrying {
        error: String,
        delay: Duration,
    },
    Skipped {
        why: String,
    },
    Cancelled,
    /// It was given back, or its worker died: the attempt did not end.
    Returned {
        why: String,
    },
    /// It has made this many items.
    Expanded {
        items: Option<u32>,
    },
    /// It has started the workflow that it is.
    Nested,
    /// An operator, or whoever waited with it, settled it.
    Resolved,
    /// An operator lets it run again.
    Reopened,
}

/// What has happened to a task since the entry with this number of its history.
pub(crate) fn since(seen: u32, step: &str, record: &Record, items: Option<u32>) -> Vec<Event> {
    let (mut events, mut attempt, mut began) = (Vec::new(), 0, None);
    let Record { task, result, history, .. } = record;
    for (place, entry) in history.iter().enumerate() {
        let next = history.get(place + 1);
        match entry.reason {
            Reason::Claimed => attempt += 1,
            // The first start is the step's: what comes after it belongs to its items.
            Reason::Started => began = Some(entry.at),
            Reason::Reopened => attempt = 0,
            _ => {}
        }
        if entry.seq > seen
            && let Some(what) = what(entry, next, began, record, items)
        {
            let what = match what {
                What::Completed { took, .. } => What::Completed { took, result: result.clone() },
                what => what,
            };
            let attempts = task.spec.max_attempts.map(Into::into);
            events.push(Event { at: entry.at, step: step.into(), task: task.id, attempt, attempts, what });
        }
        if matches!(entry.reason, Reason::Released | Reason::Snoozed | Reason::NotStarted) {
            attempt = attempt.saturating_sub(1);
        }
    }
    events
}

fn what(
    entry: &Entry,
    next: Option<&Entry>,
    began: Option<Timestamp>,
    record: &Record,
    items: Option<u32>,
) -> Option<What> {
    let note = || entry.note.clone().unwrap_or_default();
    Some(match (entry.to, entry.reason) {
        // A condition is looked at by whoever would run the step; one that is skipped has not started.
        (State::Running, _) if next.is_some_and(|next| next.reason == Reason::Skipped) => return None,
        (State::Running, _) => What::Started,
        (State::Completed, _) => {
            What::Completed { took: began.map(|began| entry.at.since(began)), result: None }
        }
        (State::Failed | State::DeadLetter, _) => What::Failed { error: note() },
        (State::WaitingForRetry, _) => {
            let due = next.map(|next| next.at).or(record.task.status.due_at);
            What::Retrying { error: note(), delay: due.map_or(Duration::ZERO, |due| due.since(entry.at)) }
        }
        (State::Skipped, _) => What::Skipped { why: note() },
        (State::Cancelled, _) => What::Cancelled,
        (State::ResolvedManually, _) => What::Resolved,
        (_, Reason::LeaseExpired | Reason::NotStarted) => What::Returned { why: "its worker is gone".into() },
        (_, Reason::Released) => What::Returned { why: note() },
        (_, Reason::Snoozed) => What::Returned { why: "put off".into() },
        (State::Pending, Reason::Failed) => What::Retrying { error: note(), delay: Duration::ZERO },
        (_, Reason::Expanded) => What::Expanded { items },
        (_, Reason::Nested) => What::Nested,
        (_, Reason::Reopened | Reason::Retried) => What::Reopened,
        _ => return None,
    })
}

impl Event {
    /// How far within steps it happened: an item is within its step, a step within the one that its workflow
    /// is.
    pub(crate) fn depth(&self) -> usize {
        self.step.matches(['/', '[']).count()
    }

    /// One line for people, without the time.
    pub(crate) fn line(&self) -> String {
        let Self { step, attempt, attempts, .. } = self;
        let of = attempts.map(|attempts| format!(" of {attempts}")).unwrap_or_default();
        let colon = |text: &str| if text.is_empty() { String::new() } else { format!(": {}", plain(text)) };
        match &self.what {
            What::Started if *attempt > 1 => format!("{step} started (attempt {attempt}{of})"),
            What::Started => format!("{step} started"),
            What::Completed { took: Some(time), .. } => format!("{step} completed in {}", took(*time)),
            What::Completed { took: None, .. } => format!("{step} completed"),
            What::Failed { error } => format!("{step} failed{}", colon(error)),
            What::Retrying { error, delay } => {
                format!("{step} retrying in {} (attempt {}{of}){}", took(*delay), attempt + 1, colon(error))
            }
            What::Skipped { why } => format!("{step} skipped{}", colon(why)),
            What::Cancelled => format!("{step} cancelled"),
            What::Returned { why } => format!("{step} runs again{}", colon(why)),
            What::Expanded { items: Some(items) } => format!("{step} has {items} items"),
            What::Expanded { items: None } => format!("{step} has items"),
            What::Nested => format!("{step} waits for its workflow"),
            What::Resolved => format!("{step} settled by hand"),
            What::Reopened => format!("{step} is to run again"),
        }
    }

    /// For programs.
    pub(crate) fn json(&self) -> Told<'_> {
        let mut told = Told {
            event: "",
            at: self.at.to_string(),
            step: &self.step,
            task_id: self.task.to_string(),
            attempt: self.attempt,
            max_attempts: self.attempts,
            error: None,
            reason: None,
            delay_seconds: None,
            took_seconds: None,
            items: None,
            result: None,
        };
        told.event = match &self.what {
            What::Started => "step_started",
            What::Completed { took, result } => {
                told.took_seconds = took.map(Seconds);
                told.result = result.as_ref().map(Verbatim);
                "step_completed"
            }
            What::Failed { error } => {
                told.error = Some(error);
                "step_failed"
            }
            What::Retrying { error, delay } => {
                (told.error, told.delay_seconds) = (Some(&**error), Some(Seconds(*delay)));
                "step_retrying"
            }
            What::Skipped { why } => {
                told.reason = Some(why);
                "step_skipped"
            }
            What::Cancelled => "step_cancelled",
            What::Returned { why } => {
                told.reason = Some(why);
                "step_returned"
            }
            What::Expanded { items } => {
                told.items = *items;
                "step_expanded"
            }
            What::Nested => "step_nested",
            What::Resolved => "step_resolved",
            What::Reopened => "step_reopened",
        };
        told
    }
}

/// An event for programs. What is absent does not belong to it.
#[derive(Serialize, Debug)]
pub(crate) struct Told<'e> {
    event: &'static str,
    at: String,
    step: &'e str,
    task_id: String,
    attempt: u32,
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_seconds: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    took_seconds: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Verbatim<'e>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::{Json, Name, NewTask, Task};

    fn record(path: &[(State, Reason, i64, &str)]) -> Record {
        let id = windlass::workflow_id().step(0);
        let new = NewTask::new(id, Name::default(), Json::default());
        let (task, payload, first) = new.admit(Timestamp::MIN);
        let mut history = vec![first];
        for (to, reason, at, note) in path {
            let (seq, from) =
                (u32::try_from(history.len() + 1).unwrap(), history.last().map(|entry| entry.to));
            let note = (!note.is_empty()).then(|| (*note).to_owned());
            let at = Timestamp::from_micros(at * 1_000);
            history.push(Entry { seq, from, to: *to, at, actor: None, reason: *reason, note });
        }
        let task = Task { id, ..task };
        Record { task, payload, result: Some(Json::stored("1e400")), history, notes: Vec::new() }
    }

    fn told(seen: u32, path: &[(State, Reason, i64, &str)]) -> Vec<String> {
        since(seen, "a", &record(path), Some(4)).iter().map(Event::line).collect()
    }

    #[test]
    fn nothing_is_missed_between_two_looks() {
        let path = [
            (State::Claimed, Reason::Claimed, 0, ""),
            (State::Running, Reason::Started, 0, ""),
            (State::WaitingForRetry, Reason::Failed, 100, "bu\nsy"),
            (State::Pending, Reason::Due, 2_100, ""),
            (State::Claimed, Reason::Claimed, 2_100, ""),
            (State::Running, Reason::Started, 2_200, ""),
            (State::Pending, Reason::LeaseExpired, 3_000, ""),
            (State::Claimed, Reason::Claimed, 3_100, ""),
            (State::Running, Reason::Started, 3_200, ""),
            (State::Completed, Reason::Completed, 4_400, ""),
        ];
        let all = [
            "a started",
            "a retrying in 2.0 s (attempt 2 of 3): bu\\nsy",
            "a started (attempt 2 of 3)",
            "a runs again: its worker is gone",
            "a started (attempt 3 of 3)",
            "a completed in 1.2 s",
        ];
        assert_eq!(told(0, &path), all);
        assert_eq!(told(4, &path), all[2..]);
        assert_eq!(told(11, &path), [""; 0]);
    }

    #[test]
    fn a_condition_that_is_false_starts_nothing() {
        let claimed = [(State::Claimed, Reason::Claimed, 0, ""), (State::Running, Reason::Started, 0, "")];
        let with = |last| told(1, &[claimed[0], claimed[1], last]);
        assert_eq!(
            with((State::Skipped, Reason::Skipped, 0, "its condition is false: x")),
            ["a skipped: its condition is false: x"]
        );
        assert_eq!(with((State::Waiting, Reason::Expanded, 0, "")), ["a started", "a has 4 items"]);
        assert_eq!(with((State::Failed, Reason::Failed, 0, "no")), ["a started", "a failed: no"]);
    }

    #[test]
    fn a_result_is_told_to_the_letter() {
        let path = [(State::Completed, Reason::Completed, 0, "")];
        let events = since(1, "a", &record(&path), None);
        let json = serde_json::to_string(&events[0].json()).unwrap();
        assert!(json.contains(r#""event":"step_completed""#) && json.contains(r#""result":1e400"#), "{json}");
    }
}
