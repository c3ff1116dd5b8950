//! Values as people and programs read them. The JSON is the outside contract, not the row.

use std::fmt::Write;

use serde_json::{Value, json};
use windlass::{
    Blocker, Entry, Explanation, Json, Lane, LaneHolder, Record, Task, TaskId, Timestamp, WorkerId,
};

/// What a command has to say, in both forms.
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) json: Value,
}

/// JSON text as a value; as a string if no parser can hold it (a number out of range, a lone surrogate).
fn value(json: &Json) -> Value {
    serde_json::from_str(json.as_str()).unwrap_or_else(|_| Value::String(json.as_str().into()))
}

fn time(at: Option<Timestamp>) -> Option<String> {
    at.map(|at| at.to_string())
}

/// A task without payload, result and history.
pub(crate) fn task_json(task: &Task) -> Value {
    let Task { id, spec, status } = task;
    json!({
        "id": id.to_string(),
        "namespace": &*spec.namespace,
        "queue": &*spec.queue,
        "kind": &*spec.kind,
        "priority": spec.priority,
        "idempotency_key": spec.key,
        "entity": spec.lane.as_ref().and_then(Lane::entity).map(|entity| entity.to_string()),
        "tags": spec.tags,
        "max_attempts": spec.max_attempts,
        "state": status.state.word(),
        "attempt": status.attempt,
        "lease": status.lease,
        "worker_id": status.worker.as_ref().map(WorkerId::as_str),
        "error": status.error,
        "created_at": spec.created_at.to_string(),
        "due_at": time(status.due_at),
        "claimed_at": time(status.claimed_at),
        "started_at": time(status.started_at),
        "finished_at": time(status.finished_at),
        "updated_at": status.updated_at.to_string(),
    })
}

fn entry_json(entry: &Entry) -> Value {
    json!({
        "seq": entry.seq,
        "from": entry.from.map(|from| from.word()),
        "to": entry.to.word(),
        "at": entry.at.to_string(),
        "reason": entry.reason.word(),
        "actor": entry.actor,
        "note": entry.note,
    })
}

/// A task with everything that belongs to it.
pub(crate) fn record_json(record: &Record) -> Value {
    let mut task = task_json(&record.task);
    task["payload"] = value(&record.payload);
    task["result"] = record.result.as_ref().map_or(Value::Null, value);
    task["history"] = record.history.iter().map(entry_json).collect();
    task
}

/// A task on one line.
pub(crate) fn task_line(task: &Task) -> String {
    let Task { id, spec, status } = task;
    let of = spec.max_attempts.map_or_else(|| "∞".into(), |max| max.to_string());
    format!("{id}  {:<18} {:<20} attempt {} of {of}", status.state, &*spec.kind, status.attempt)
}

/// A task and its history.
pub(crate) fn record_text(record: &Record) -> String {
    let mut text = task_line(&record.task);
    for (name, json) in [("payload", Some(&record.payload)), ("result", record.result.as_ref())] {
        if let Some(json) = json {
            let _ = write!(text, "\n  {name} {json}");
        }
    }
    for Entry { to, at, actor, reason, note, .. } in &record.history {
        let _ = write!(text, "\n  {at}  {to:<18} {reason}");
        for (word, said) in [("by", actor), ("·", note)] {
            if let Some(said) = said {
                let _ = write!(text, " {word} {said}");
            }
        }
    }
    text + "\n"
}

/// Why a task is not running, for people.
pub(crate) fn explanation_text(id: TaskId, explanation: &Explanation) -> String {
    let mut text = format!("Task {id}: {}.\n", explanation.detail);
    for blocker in &explanation.blockers {
        if let Blocker::Task(LaneHolder { task, state, worker }) = blocker {
            let worker = worker.as_ref().map_or_else(String::new, |worker| format!(", worker {worker}"));
            let _ = writeln!(text, "  A slot is held by task {task} ({state}{worker}).");
        }
    }
    if let Some(at) = explanation.next_change_at {
        let _ = writeln!(text, "  Next change: {at}");
    }
    text
}

/// Why a task is not running, for programs.
pub(crate) fn explanation_json(explanation: &Explanation) -> Value {
    let blocker = |blocker: &Blocker| match blocker {
        Blocker::Task(holder) => json!({
            "task": holder.task.to_string(),
            "state": holder.state.word(),
            "worker_id": holder.worker.as_ref().map(WorkerId::as_str),
        }),
        Blocker::Queue(queue) => json!({ "queue": queue }),
        Blocker::Worker(worker) => json!({ "worker_id": worker.as_str() }),
        Blocker::Kind(kind) => json!({ "kind": kind }),
    };
    json!({
        "reason": explanation.why.word(),
        "detail": explanation.detail,
        "next_change_at": time(explanation.next_change_at),
        "blockers": explanation.blockers.iter().map(blocker).collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::{State, Why};

    #[test]
    fn who_holds_the_slot_is_named() {
        let task = windlass::task_id();
        let holder = LaneHolder { task, state: State::Running, worker: WorkerId::new("w").ok() };
        let explanation = Explanation {
            why: Why::LaneFull,
            detail: "its lane is full".into(),
            next_change_at: Some(Timestamp::MIN),
            blockers: vec![Blocker::Task(holder)],
        };
        let text = explanation_text(task, &explanation);
        assert!(text.contains(&format!("held by task {task} (running, worker w)")), "{text}");
        assert!(text.ends_with("Next change: 1970-01-01T00:00:00.000000Z\n"), "{text}");
        assert_eq!(explanation_json(&explanation)["blockers"][0]["worker_id"], "w");
    }

    #[test]
    fn json_that_no_parser_holds_is_shown_as_text() {
        assert_eq!(value(&Json::stored("1e400")), Value::String("1e400".into()));
        assert_eq!(value(&Json::stored("{\"a\":1}"))["a"], 1);
    }
}
