//! Why a task is not running.

use serde::Serialize;
use utoipa::ToSchema;
use windlass::{
    Blocker, Explanation, Facts, Join, LaneHolder, Missing, Name, RUN, RUN_AD_HOC, State, StepExplanation,
    StepWaits, Timestamp, WORKFLOW, Why, WorkerId, WorkflowState,
};

use super::time;
use crate::escape::plain;
use crate::moment;
use crate::paint::Paint;

/// Why a task is not running, for programs.
#[derive(Serialize, ToSchema, PartialEq, Debug)]
#[schema(as = Explanation)]
pub(crate) struct WhyJson {
    /// A stable word.
    reason: &'static str,
    /// The reason in a sentence.
    detail: String,
    /// The next moment at which something changes by itself, if one is known.
    next_change_at: Option<String>,
    /// What stands in the way; the first of it, if there is much.
    blockers: Vec<BlockerJson>,
    /// How much stands in the way of a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    blockers_total: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_paused: Option<bool>,
    /// The name of the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    /// What the history of the step says.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// What stands in the way of a task: another task, a step, a workflow, a queue that is paused, a worker, or a
/// kind that nobody takes.
#[derive(Serialize, ToSchema, PartialEq, Debug, Default)]
#[schema(as = Blocker)]
pub(crate) struct BlockerJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// Who holds the task, or has fallen silent.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_id: Option<String>,
    /// Where that task, step or workflow is.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    /// Whether that workflow is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<bool>,
}

impl BlockerJson {
    fn of(blocker: &Blocker) -> Self {
        let plain = Self::default();
        match blocker {
            Blocker::Task(holder) => Self {
                task: Some(holder.task.to_string()),
                state: Some(holder.state.word()),
                worker_id: holder.worker.as_ref().map(ToString::to_string),
                ..plain
            },
            Blocker::Queue(queue) => Self { queue: Some(queue.to_string()), ..plain },
            Blocker::Worker(worker) => Self { worker_id: Some(worker.to_string()), ..plain },
            Blocker::Kind(kind) => Self { kind: Some(kind.to_string()), ..plain },
        }
    }
}

impl WhyJson {
    pub(crate) fn of(explanation: &Explanation) -> Self {
        Self {
            reason: explanation.why.word(),
            detail: explanation.detail.clone(),
            next_change_at: time(explanation.next_change_at),
            blockers: explanation.blockers.iter().map(BlockerJson::of).collect(),
            blockers_total: None,
            workflow_id: None,
            workflow_paused: None,
            step: None,
            note: None,
        }
    }

    /// What is said about any task, and what its workflow adds.
    pub(crate) fn of_step(step: &StepExplanation) -> Self {
        let mut json = Self {
            reason: step.reason(),
            workflow_id: Some(step.workflow.id.to_string()),
            workflow_paused: Some(step.workflow.paused),
            step: Some(step.step.clone()),
            note: step.note.clone(),
            ..Self::of(&step.explanation)
        };
        match &step.waits {
            StepWaits::Parents { missing, .. } | StepWaits::Items { missing, .. } => {
                let blocker = |step: &windlass::MissingStep| BlockerJson {
                    step: Some(step.name.clone()),
                    task: Some(step.task.to_string()),
                    state: Some(step.state.word()),
                    ..BlockerJson::default()
                };
                json.blockers = missing.first.iter().map(blocker).collect();
                json.blockers_total = Some(missing.total);
            }
            StepWaits::Workflow(Some(child)) => {
                json.blockers = vec![BlockerJson {
                    workflow: Some(child.id.to_string()),
                    state: Some(child.state.word()),
                    paused: Some(child.paused),
                    ..BlockerJson::default()
                }];
            }
            StepWaits::Nothing | StepWaits::Workflow(None) | StepWaits::Resume => {}
        }
        json
    }
}

/// For people: sentences, with what to do about it.
pub(crate) fn text(facts: &Facts, explanation: &Explanation, paint: Paint) -> String {
    let (spec, status) = (&facts.task.spec, &facts.task.status);
    let mut text = format!("Task {} ({}) is {}.\n", facts.task.id, spec.kind, paint.state(status.state));
    for sentence in sentences(facts, explanation, &task_name(facts)) {
        text += &format!("{sentence}\n");
    }
    text + &holders(explanation, paint)
}

/// For people: where the step is, and what its workflow has to do with it.
pub(crate) fn step_text(step: &StepExplanation, paint: Paint) -> String {
    let StepExplanation { workflow, facts, explanation, waits, note, .. } = step;
    let (id, name) = (workflow.id, plain(&step.step));
    let mut text = format!(
        "Step {name} of workflow {id} ({}) is {}.\n",
        workflow.name,
        paint.state(facts.task.status.state)
    );
    let resume = format!("`windlass workflow resume {id}` lets it go on");
    match waits {
        StepWaits::Nothing => {
            let said = sentences(facts, explanation, &format!("workflow VERB {id}/{name}"));
            // A workflow that has ended lets no step run again.
            let is_closed = workflow.state.is_final() && workflow.state != WorkflowState::Error;
            for sentence in said.iter().take(if is_closed { 1 } else { said.len() }) {
                text += &format!("{sentence}\n");
            }
            text += &holders(explanation, paint);
            let said = note.as_deref().filter(|note| facts.task.status.error.as_deref() != Some(note));
            text += &said.map(|note| format!("Its history says: {}.\n", plain(note))).unwrap_or_default();
            let state = facts.task.status.state;
            if is_closed && matches!(state, State::Failed | State::DeadLetter | State::Cancelled) {
                let (from, ended) = (name.split('[').next().unwrap_or_default(), workflow.state);
                text += &format!(
                    "Its workflow is {ended}; `windlass workflow rerun {id} --from {from}` starts another that does it.\n"
                );
            }
        }
        StepWaits::Parents { join, of, missing } => {
            let which = match join {
                Join::All => format!("all of its {of} parents"),
                Join::Any => format!("one of its {of} parents"),
                Join::AtLeast(n) => format!("{n} of its {of} parents"),
                Join::AllDone => format!("the end of all its {of} parents, however they end"),
            };
            text += &format!("It waits for {which}; {}:\n", these(missing));
            text += &missing_text(missing, id, paint);
        }
        StepWaits::Items { of, missing } => {
            text += &format!("It waits for its {of} items; {}:\n", these(missing));
            text += &missing_text(missing, id, paint);
        }
        StepWaits::Workflow(Some(child)) => {
            let paused = if child.paused { ", paused" } else { "" };
            let (child, state) = (child.id, paint.workflow(child.state));
            text += &format!(
                "It is the workflow {child}, which is {state}{paused}: `windlass workflow get {child}`.\n"
            );
        }
        StepWaits::Workflow(None) => text += "It is a workflow, which is not there any more.\n",
        StepWaits::Resume => text += &format!("Its workflow is paused: {resume}.\n"),
    }
    if workflow.paused && *waits != StepWaits::Resume && !facts.task.status.state.is_final() {
        text += &format!("Besides, its workflow is paused: {resume}.\n");
    }
    text
}

fn these(missing: &Missing) -> &'static str {
    match missing.total {
        0 => "none is missing, so it moves on at once",
        1 => "this one is missing",
        _ => "these are missing",
    }
}

/// What is missing, one on each line, and what to do about what has failed.
fn missing_text(missing: &Missing, id: windlass::WorkflowId, paint: Paint) -> String {
    let mut text = String::new();
    for step in &missing.first {
        text += &format!("  {} {}\n", plain(&step.name), paint.state(step.state));
    }
    if missing.more() > 0 {
        text += &format!("  … and {} more\n", missing.more());
    }
    let failed = |state| matches!(state, State::Failed | State::DeadLetter);
    if let Some(step) = missing.first.iter().find(|step| failed(step.state)) {
        let name = plain(&step.name);
        text += &format!(
            "`windlass workflow retry {id}/{name}` runs it again, `windlass workflow resolve {id}/{name}` settles it by hand.\n"
        );
    }
    text
}

/// Tasks that stand in the way, one on each line.
fn holders(explanation: &Explanation, paint: Paint) -> String {
    let mut text = String::new();
    for blocker in &explanation.blockers {
        if let Blocker::Task(LaneHolder { task, state, worker }) = blocker {
            let worker = match worker {
                Some(worker) => format!(" by worker {}", plain(worker.as_str())),
                None if *state == State::Waiting => " for the workflow that it is".into(),
                None => String::new(),
            };
            text += &format!("  {task} {}{worker}\n", paint.state(*state));
        }
    }
    text
}

/// How commands name a task, with `VERB` for what they do.
fn task_name(facts: &Facts) -> String {
    format!("task VERB {}", facts.task.id)
}

fn sentences(facts: &Facts, explanation: &Explanation, command: &str) -> Vec<String> {
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
        Why::Final => over(facts, &error, command),
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
        Why::NoWorker if *spec.kind == *WORKFLOW => {
            let (queue, namespace) = (&spec.queue, flag(&spec.namespace));
            vec![
                format!("It is a workflow, and no live worker starts those of queue {queue}."),
                format!("Start one that does: `windlass work --workflows --queue {queue}{namespace}`."),
            ]
        }
        Why::NoWorker if *spec.kind == *RUN_AD_HOC => {
            let (queue, namespace) = (&spec.queue, flag(&spec.namespace));
            vec![
                format!(
                    "It is a program of an ad hoc workflow, and no live worker runs those of queue {queue}."
                ),
                format!(
                    "If those who start such workflows may run any command there: `windlass work --run-steps --run-ad-hoc --queue {queue}{namespace}`."
                ),
            ]
        }
        Why::NoWorker if *spec.kind == *RUN => {
            let (queue, namespace) = (&spec.queue, flag(&spec.namespace));
            vec![
                format!("It is a program, and no live worker runs those of queue {queue}."),
                format!("Start one that does: `windlass work --run-steps --queue {queue}{namespace}`."),
            ]
        }
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

fn over(facts: &Facts, error: &str, command: &str) -> Vec<String> {
    let status = &facts.task.status;
    let [retry, resolve] = ["retry", "resolve"].map(|verb| command.replacen("VERB", verb, 1));
    let since = moment::both(status.finished_at.unwrap_or(status.updated_at), facts.now);
    let force = if facts.task.is_exhausted() { " --force" } else { "" };
    let mut said = vec![format!("It is over since {since}{error}.")];
    said.extend(match status.state {
        State::Failed | State::DeadLetter => {
            Some(format!("`windlass {retry}{force}` runs it again, `windlass {resolve}` settles it by hand."))
        }
        State::Cancelled => Some(format!("`windlass {retry}{force}` runs it again.")),
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
        assert_eq!(WhyJson::of(&explain(&facts)).blockers[0].worker_id.as_deref(), Some("w\u{1b}"));
    }

    #[test]
    fn every_reason_says_when_or_what_to_do() {
        let base = facts(None);
        assert!(said(&base).contains("windlass work --exec 'email:send=COMMAND'"), "{}", said(&base));
        for (kind, flag) in
            [(RUN, "--run-steps"), (RUN_AD_HOC, "--run-steps --run-ad-hoc"), (WORKFLOW, "--workflows")]
        {
            let mut step = base.clone();
            step.task.spec.kind = Name::stored(kind);
            let text = said(&step);
            assert!(text.contains(&format!("`windlass work {flag} --queue default")), "{text}");
            assert!(!text.contains("--exec"), "{text}");
        }
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
