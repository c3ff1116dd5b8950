//! Why a task is not running.

use serde_json::{Value, json};
use windlass::{Blocker, Explanation, Facts, LaneHolder, Name, State, Timestamp, Why, WorkerId};

use super::time;
use crate::escape::plain;
use crate::moment;
use crate::paint::Paint;

/// For programs.
pub(crate) fn json(explanation: &Explanation) -> Value {
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

/// For people: sentences, with what to do about it.
pub(crate) fn text(facts: &Facts, explanation: &Explanation, paint: Paint) -> String {
    let (spec, status) = (&facts.task.spec, &facts.task.status);
    let mut text = format!("Task {} ({}) is {}.\n", facts.task.id, spec.kind, paint.state(status.state));
    for sentence in sentences(facts, explanation) {
        text += &format!("{sentence}\n");
    }
    for blocker in &explanation.blockers {
        if let Blocker::Task(LaneHolder { task, state, worker }) = blocker {
            let worker = worker
                .as_ref()
                .map_or_else(String::new, |worker| format!(" by worker {}", plain(worker.as_str())));
            text += &format!("  {task} {}{worker}\n", paint.state(*state));
        }
    }
    text
}

fn sentences(facts: &Facts, explanation: &Explanation) -> Vec<String> {
    let (spec, status, now) = (&facts.task.spec, &facts.task.status, facts.now);
    let both = |at: Option<Timestamp>| moment::both(at.unwrap_or(now), now);
    let holder = plain(status.worker.as_ref().map_or("(unknown)", WorkerId::as_str)).into_owned();
    let attempt = match spec.max_attempts {
        Some(max) => format!("attempt {} of {max}", status.attempt),
        None => format!("attempt {}", status.attempt),
    };
    let error = status.error.as_deref().map_or_else(String::new, |error| format!(": {}", plain(error)));
    match explanation.why {
        Why::Running => {
            let mut said = vec![format!("Worker {holder} runs {attempt} since {}.", both(status.started_at))];
            said.extend(
                facts
                    .task
                    .deadline()
                    .map(|at| format!("It is stopped if it is not over at {}.", both(Some(at)))),
            );
            said.extend(alive(facts));
            said
        }
        Why::AboutToStart => {
            let mut said = vec![format!(
                "Worker {holder} claimed it at {} and is about to start it.",
                both(status.claimed_at)
            )];
            said.extend(alive(facts));
            said
        }
        Why::LeaseExpired => {
            let then = if facts.task.is_exhausted() {
                "it has no attempt left, so a leader will move it to the dead letters"
            } else {
                "a leader will offer it to others"
            };
            vec![format!("Worker {holder} had {attempt} and fell silent; {then}."), leader()]
        }
        Why::Final => over(facts, &error),
        Why::NotDue => vec![format!("It was delayed or snoozed and is due at {}.", both(status.due_at))],
        Why::Backoff => {
            let mut attempt = attempt;
            attempt.replace_range(..1, "A");
            vec![
                format!("{attempt} failed{error}."),
                format!("The next may start at {}.", both(status.due_at)),
            ]
        }
        Why::AboutToBeDue => {
            vec![
                format!("It was due at {}; a leader will offer it to workers.", both(status.due_at)),
                leader(),
            ]
        }
        Why::QueuePaused => {
            let namespace = flag(&spec.namespace);
            vec![format!(
                "Its queue {0} is paused: `windlass queue resume {0}{namespace}` lets it run.",
                spec.queue
            )]
        }
        Why::LaneFull => vec![match spec.lane.as_ref() {
            Some(lane) => match lane.entity() {
                Some(entity) => format!(
                    "One task of {} is in progress at a time; this one comes before it:",
                    plain(entity.as_str())
                ),
                None => format!(
                    "Its lane {} admits {} at a time; these hold the slots:",
                    plain(lane.key()),
                    lane.limit()
                ),
            },
            None => "Its lane is full; these hold the slots:".into(),
        }],
        Why::NoWorker => {
            let (kind, queue, namespace) = (&spec.kind, &spec.queue, flag(&spec.namespace));
            vec![
                format!(
                    "No live worker takes kind {kind} from queue {queue} of namespace {}.",
                    spec.namespace
                ),
                format!(
                    "Start one, such as `windlass work --exec '{kind}=COMMAND' --queue {queue}{namespace}`."
                ),
            ]
        }
        Why::InQueue => {
            let workers = facts.live_workers;
            let take =
                if workers == 1 { "worker takes its kind and is" } else { "workers take its kind and are" };
            vec![format!(
                "It can be claimed: {workers} live {take} busy with tasks before it, or about to see it."
            )]
        }
        Why::WaitingForParents => vec!["It waits for its dependencies.".into()],
    }
}

/// What follows if nothing is heard of its holder any more.
fn alive(facts: &Facts) -> Option<String> {
    let until = facts.alive_until?;
    Some(format!("If its worker falls silent, it is taken away from {} on.", moment::to_second(until)))
}

fn leader() -> String {
    "If that takes longer than a minute, no worker that may lead is alive: see `windlass worker list`.".into()
}

fn over(facts: &Facts, error: &str) -> Vec<String> {
    let (id, status) = (facts.task.id, &facts.task.status);
    let since = moment::both(status.finished_at.unwrap_or(status.updated_at), facts.now);
    let force = if facts.task.is_exhausted() { " --force" } else { "" };
    let mut said = vec![format!("It is over since {since}{error}.")];
    said.extend(match status.state {
        State::Failed | State::DeadLetter => Some(format!(
            "`windlass task retry {id}{force}` runs it again, `windlass task resolve {id}` settles it by hand."
        )),
        State::Cancelled => Some(format!("`windlass task retry {id}{force}` runs it again.")),
        _ => None,
    });
    said
}

/// What names a namespace on a command line.
fn flag(namespace: &Name) -> String {
    if *namespace == Name::default() { String::new() } else { format!(" --namespace {namespace}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use windlass::{Json, Lane, NewTask, explain};

    fn facts(lane: Option<Lane>) -> Facts {
        let now = Timestamp::from_micros(1_800_000_000_000_000);
        let mut new = NewTask::new(windlass::task_id(), Name::stored("email:send"), Json::default());
        new.lane = lane;
        let (task, ..) = new.admit(now);
        Facts { task, paused: false, lane_holders: Vec::new(), live_workers: 0, alive_until: None, now }
    }

    fn said(facts: &Facts) -> String {
        text(facts, &explain(facts), Paint::Plain)
    }

    #[test]
    fn who_holds_the_slot_is_named() {
        let mut facts = facts(Some(Lane::of(&"planner:42".parse().unwrap())));
        let task = windlass::task_id();
        facts.lane_holders =
            vec![LaneHolder { task, state: State::Running, worker: WorkerId::new("w\u{1b}").ok() }];
        let text = said(&facts);
        assert!(
            text.contains("One task of planner:42")
                && text.ends_with(&format!("  {task} running by worker w\\u{{1b}}\n")),
            "{text}"
        );
        assert_eq!(json(&explain(&facts))["blockers"][0]["worker_id"], "w\u{1b}");
    }

    #[test]
    fn every_reason_says_when_or_what_to_do() {
        let base = facts(None);
        assert!(said(&base).contains("windlass work --exec 'email:send=COMMAND'"), "{}", said(&base));
        let paused = Facts { paused: true, ..base.clone() };
        assert!(said(&paused).contains("windlass queue resume default`"), "{}", said(&paused));
        let busy = Facts { live_workers: 1, ..base.clone() };
        assert!(said(&busy).contains("1 live worker takes"), "{}", said(&busy));
        let mut later = base.clone();
        later.task.status.state = State::WaitingForRetry;
        later.task.status.due_at = Some(base.now.plus(Duration::from_secs(12)));
        later.task.status.attempt = 2;
        later.task.status.error = Some("refused\n".into());
        assert!(said(&later).contains("Attempt 2 of 3 failed: refused\\n.\n"), "{}", said(&later));
        assert!(said(&later).contains(", in 12 s."), "{}", said(&later));
        let mut dead = later;
        dead.task.status.state = State::DeadLetter;
        dead.task.status.attempt = 3;
        dead.task.status.finished_at = Some(base.now.minus(Duration::from_secs(200)));
        assert!(said(&dead).contains("3 min ago") && said(&dead).contains("--force"), "{}", said(&dead));
        let mut held = base.clone();
        held.task.status.state = State::Running;
        held.task.status.worker = WorkerId::new("w").ok();
        held.task.status.started_at = Some(base.now);
        assert!(said(&held).contains("fell silent"), "{}", said(&held));
        held.alive_until = Some(base.now.plus(Duration::from_secs(30)));
        held.task.spec.timeout = Some(Duration::from_secs(5));
        assert!(said(&held).contains("not over at") && said(&held).contains("in 5 s"), "{}", said(&held));
    }
}
