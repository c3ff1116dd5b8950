//! Schedules: when a task is to be submitted again and again, and what becomes of runs that were missed or
//! overlap.
//!
//! Which moments a cron expression names is found out elsewhere, because time zones are data from outside;
//! what is done about them is decided here, by [`Schedule::plan`].

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::TaskId;
use crate::json::Json;
use crate::lane::Lane;
use crate::limits;
use crate::name::{Name, stored_text};
use crate::rank::Ageing;
use crate::rejected::{Invalid, Rejected};
use crate::retry::RetryPolicy;
use crate::schedule_policy::{Missed, Overlap};
use crate::state::State;
use crate::task::{NewTask, Start};
use crate::time::{Timestamp, whole_micros};

/// What a schedule submits: a [`NewTask`] without what differs from run to run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(from = "NewTask", into = "NewTask")]
pub struct Template(NewTask);

impl Template {
    /// From a task as it would be submitted by hand. Its id, key, start, trace and actor are not used.
    #[must_use]
    pub fn new(task: NewTask) -> Self {
        let plain = NewTask::new(TaskId::from_bytes([0; 16]), task.kind.clone(), Json::default());
        Self(NewTask {
            id: plain.id,
            namespace: plain.namespace,
            key: None,
            on_conflict: plain.on_conflict,
            start: Start::Now,
            timeout: task.timeout.map(whole_micros),
            // Each run is a trace of its own.
            traceparent: None,
            actor: None,
            ..task
        })
    }

    /// The task, as [`Template::new`] was given it, of namespace `default`.
    #[must_use]
    pub fn task(&self) -> &NewTask {
        &self.0
    }

    /// The text that a store keeps.
    #[must_use]
    pub fn to_text(&self) -> String {
        let task = &self.0;
        let document = Document {
            queue: task.queue.to_string(),
            kind: task.kind.to_string(),
            payload: task.payload.to_string(),
            priority: task.priority,
            per_hour: task.ageing.per_hour,
            per_retry: task.ageing.per_retry,
            lane: task.lane.as_ref().map(|lane| (lane.key().into(), lane.limit(), lane.is_strict())),
            require_entity: task.require_entity,
            timeout: task.timeout,
            tags: task.tags.clone(),
            max_attempts: task.max_attempts,
            retry: task.retry,
        };
        serde_json::to_string(&document).unwrap_or_default()
    }

    /// From the text that [`Template::to_text`] gave.
    pub fn stored(text: &str) -> Result<Self, Invalid> {
        let document: Document = serde_json::from_str(text)
            .map_err(|error| Invalid::new("schedule", text, format!("a text of this version ({error})")))?;
        let (id, kind) = (TaskId::from_bytes([0; 16]), Name::stored(&document.kind));
        Ok(Self(NewTask {
            queue: Name::stored(&document.queue),
            priority: document.priority,
            ageing: Ageing { per_hour: document.per_hour, per_retry: document.per_retry },
            lane: document.lane.map(|(key, limit, strict)| Lane::stored(key, limit, strict)),
            require_entity: document.require_entity,
            timeout: document.timeout,
            tags: document.tags,
            max_attempts: document.max_attempts,
            retry: document.retry,
            ..NewTask::new(id, kind, Json::stored(&document.payload))
        }))
    }
}

impl From<NewTask> for Template {
    fn from(task: NewTask) -> Self {
        Self::new(task)
    }
}

impl From<Template> for NewTask {
    fn from(template: Template) -> Self {
        template.0
    }
}

/// A [`Template`] as it is stored.
#[derive(Serialize, Deserialize)]
struct Document {
    queue: String,
    kind: String,
    payload: String,
    priority: i32,
    per_hour: u32,
    per_retry: u32,
    lane: Option<(String, u32, bool)>,
    require_entity: bool,
    timeout: Option<Duration>,
    tags: Vec<String>,
    max_attempts: Option<NonZeroU32>,
    retry: RetryPolicy,
}

/// A request to make or change a schedule.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NewSchedule {
    /// Whose.
    pub namespace: Name,
    /// Its name, unique in the namespace.
    pub name: Name,
    /// The cron expression.
    pub cron: String,
    /// The time zone that the expression is meant in.
    pub zone: String,
    /// What to submit.
    pub template: Template,
    /// What to do about missed slots.
    pub missed: Missed,
    /// What to do about a run that is not over.
    pub overlap: Overlap,
    /// Whether it is paused; absent leaves it as it is.
    pub paused: Option<bool>,
    /// The first slot from now on.
    pub next_at: Timestamp,
}

impl NewSchedule {
    /// Whether every value is within its limits.
    pub fn check(&self) -> Result<(), Invalid> {
        for (field, text) in [("cron", &self.cron), ("time zone", &self.zone)] {
            if text.is_empty() || text.len() > limits::CRON_BYTES || text.contains('\0') {
                return Err(Invalid::new(field, text, "1 to 256 bytes without NUL"));
            }
        }
        if let Missed::All(most) = self.missed
            && most.get() > limits::CATCH_UP
        {
            return Err(Invalid::number("missed runs to make up for", most, "at most 100"));
        }
        self.template.0.check()
    }

    /// The schedule as it is from now on. What was fired, and whether it is paused, stays; a new expression
    /// or zone, and the end of a pause, begin with the first slot from now on.
    #[must_use]
    pub fn admit(self, before: Option<&Schedule>, now: Timestamp) -> Schedule {
        let paused = self.paused.unwrap_or_else(|| before.is_some_and(|before| before.paused));
        let same_times = before.filter(|before| {
            before.cron == self.cron && before.zone == self.zone && (!before.paused || paused)
        });
        Schedule {
            namespace: self.namespace,
            name: self.name,
            cron: self.cron,
            zone: self.zone,
            template: self.template,
            missed: self.missed,
            overlap: self.overlap,
            paused,
            next_at: same_times.map_or(self.next_at, |before| before.next_at),
            last_at: before.and_then(|before| before.last_at),
            last_task: before.and_then(|before| before.last_task),
            fired: before.map_or(0, |before| before.fired),
            skipped: before.map_or(0, |before| before.skipped),
            left_out: before.and_then(|before| before.left_out.clone()),
            error: before.and_then(|before| before.error.clone()),
            updated_at: now,
        }
    }
}

/// A schedule.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Schedule {
    /// Whose.
    pub namespace: Name,
    /// Its name, unique in the namespace.
    pub name: Name,
    /// The cron expression.
    pub cron: String,
    /// The time zone that the expression is meant in.
    pub zone: String,
    /// What it submits.
    pub template: Template,
    /// What it does about missed slots.
    pub missed: Missed,
    /// What it does about a run that is not over.
    pub overlap: Overlap,
    /// Whether it fires at all.
    pub paused: bool,
    /// The first slot that was not fired yet. [`Timestamp::MAX`] if there is none.
    pub next_at: Timestamp,
    /// The last slot for which a task was submitted.
    pub last_at: Option<Timestamp>,
    /// That task.
    pub last_task: Option<TaskId>,
    /// How many tasks it has submitted.
    pub fired: u64,
    /// How many slots no task was submitted for.
    pub skipped: u64,
    /// How many slots were last left out, until when, and why.
    #[serde(default)]
    pub left_out: Option<String>,
    /// Why the last slot's task was refused, if it was.
    pub error: Option<String>,
    /// When anything last changed.
    pub updated_at: Timestamp,
}

/// What is to be done about the slots of a schedule that have come.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Slots to submit a task for, oldest first.
    pub slots: Vec<Timestamp>,
    /// The task to cancel first.
    pub cancel: Option<TaskId>,
    /// How many slots no task is submitted for.
    pub skipped: u32,
    /// How many, until when, and why, if there are any.
    pub left_out: Option<String>,
}

impl Schedule {
    /// How many of the slots that have come need to be known, the last ones.
    #[must_use]
    pub fn most_slots(&self) -> usize {
        match (self.missed, self.overlap) {
            (Missed::All(most), Overlap::Allow | Overlap::Queue) => {
                usize::try_from(most.get()).unwrap_or(usize::MAX)
            }
            _ => 1,
        }
    }

    /// Decides about `come`, the slots that have come, oldest first, or the last [`limits::COUNTED_SLOTS`] of
    /// them. `previous` is where [`Schedule::last_task`] is; absent if it is gone.
    #[must_use]
    pub fn plan(&self, come: &[Timestamp], previous: Option<State>, now: Timestamp) -> Plan {
        let running = previous.is_some_and(|state| !state.is_final());
        let mut slots = come[come.len().saturating_sub(self.most_slots())..].to_vec();
        let mut why = "no leader was there to submit their tasks in time";
        if self.missed == Missed::Skip {
            slots.retain(|slot| now.since(*slot) <= limits::ON_TIME);
        }
        if self.overlap == Overlap::Skip && running {
            slots.clear();
            why = "the task of the slot before was not over (overlap: skip)";
        }
        let replaces = self.overlap == Overlap::Replace && running && !slots.is_empty();
        let skipped = u32::try_from(come.len() - slots.len()).unwrap_or(u32::MAX);
        let left_out = (skipped > 0).then(|| left_out(skipped, come, why));
        Plan { slots, cancel: self.last_task.filter(|_| replaces), skipped, left_out }
    }

    /// The task for a slot. Its key makes it the only one, whoever fires; without a slot it is a run by hand.
    #[must_use]
    pub fn task(&self, id: TaskId, slot: Option<Timestamp>) -> NewTask {
        let mut task = self.template.0.clone();
        task.id = id;
        task.namespace = self.namespace.clone();
        task.key = slot.map(|slot| format!("schedule {} {slot}", self.name));
        task.actor = Some(format!("schedule {}", self.name));
        if self.overlap == Overlap::Queue && task.lane.is_none() {
            task.lane = Some(Lane::stored(format!("schedule {}", self.name), 1, false));
        }
        task
    }
}

/// The text of [`Schedule::left_out`], about `number` of the slots that have `come`.
fn left_out(number: u32, come: &[Timestamp], why: impl fmt::Display) -> String {
    let slots = if number == 1 { "slot" } else { "slots" };
    let until = come.last().map(|slot| format!(" until {slot}")).unwrap_or_default();
    format!("{number} {slots}{until}: {why}")
}

/// The slots of one schedule that are fired, or left out, in one transaction.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Firing {
    /// Whose.
    pub namespace: Name,
    /// Which schedule.
    pub name: Name,
    /// Its [`Schedule::next_at`] when this was decided: if that has moved, another was first and nothing is
    /// done.
    pub expected: Timestamp,
    /// Its [`Schedule::next_at`] from now on.
    pub next_at: Timestamp,
    /// The last of the slots that tasks are submitted for; absent for a run by hand.
    pub last_at: Option<Timestamp>,
    /// What is submitted.
    pub tasks: Vec<NewTask>,
    /// How many slots are left out.
    pub skipped: u32,
    /// How many, until when, and why, if there are any.
    #[serde(default)]
    pub left_out: Option<String>,
    /// Why a task was refused.
    pub error: Option<String>,
}

impl Firing {
    /// Whether the schedule is as it was when this was decided: a pause keeps time from firing it, not
    /// people.
    pub fn check(&self, schedule: &Schedule) -> Result<(), Rejected> {
        let by_time = self.next_at != self.expected;
        if schedule.next_at != self.expected || (schedule.paused && by_time) {
            let next_at = schedule.next_at;
            return Err(Rejected::ScheduleMoved { name: self.name.to_string(), next_at });
        }
        Ok(())
    }

    /// The same slots without a task for any of them, because one was refused.
    #[must_use]
    pub fn refused(self, error: &impl fmt::Display) -> Self {
        let more = u32::try_from(self.tasks.len()).unwrap_or(u32::MAX);
        let skipped = self.skipped.saturating_add(more);
        Self {
            tasks: Vec::new(),
            skipped,
            left_out: Some(left_out(skipped, self.last_at.as_slice(), error)),
            error: Some(error.to_string()),
            last_at: None,
            ..self
        }
    }

    /// The schedule after this. `tasks` are those that were submitted, and whether each is new.
    #[must_use]
    pub fn fired(&self, before: &Schedule, tasks: &[(TaskId, bool)], now: Timestamp) -> Schedule {
        let created = tasks.iter().filter(|(_, created)| *created).count();
        Schedule {
            next_at: self.next_at,
            last_at: self.last_at.or(before.last_at),
            last_task: tasks.last().map(|(id, _)| *id).or(before.last_task),
            fired: before.fired.saturating_add(u64::try_from(created).unwrap_or(u64::MAX)),
            skipped: before.skipped.saturating_add(u64::from(self.skipped)),
            left_out: self.left_out.as_deref().map(stored_text).or_else(|| before.left_out.clone()),
            error: self.error.as_deref().map(stored_text),
            updated_at: now,
            ..before.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn new(missed: Missed, overlap: Overlap) -> NewSchedule {
        let kind = Name::kind("report:make").unwrap();
        let mut task = NewTask::new(TaskId::from_bytes([7; 16]), kind, Json::payload("{\"a\": 1}").unwrap());
        task.lane = Some(Lane::new("reports", 3).unwrap().strict());
        task.timeout = Some(Duration::from_nanos(5_000_000_001));
        task.tags = vec!["nightly".into()];
        task.key = Some("not used".into());
        NewSchedule {
            namespace: Name::default(),
            name: Name::new("schedule", "nightly").unwrap(),
            cron: "0 0 * * *".into(),
            zone: "UTC".into(),
            template: Template::new(task),
            missed,
            overlap,
            paused: None,
            next_at: at(100),
        }
    }

    #[test]
    fn a_template_is_kept_whole() {
        let template = new(Missed::One, Overlap::Allow).template;
        assert_eq!(template.task().key, None);
        assert_eq!(Template::stored(&template.to_text()).unwrap(), template);
        assert!(Template::stored("{}").is_err());
    }

    #[test]
    fn missed_slots_are_made_up_for_as_asked() {
        let all = Missed::All(NonZeroU32::new(3).unwrap());
        for (missed, overlap, most) in [
            (Missed::Skip, Overlap::Allow, 1),
            (Missed::One, Overlap::Allow, 1),
            (all, Overlap::Allow, 3),
            (all, Overlap::Queue, 3),
            (all, Overlap::Skip, 1),
            (all, Overlap::Replace, 1),
        ] {
            let schedule = new(missed, overlap).admit(None, at(0));
            assert_eq!(schedule.most_slots(), most, "{missed:?} {overlap:?}");
        }
        let skip = new(Missed::Skip, Overlap::Allow).admit(None, at(0));
        assert_eq!(skip.plan(&[at(100)], None, at(160)).slots, [at(100)], "late, not missed");
        assert!(skip.plan(&[at(100)], None, at(161)).slots.is_empty());
        let plan = skip.plan(&[at(50), at(100)], None, at(161));
        assert_eq!(plan.skipped, 2);
        let why =
            "2 slots until 1970-01-01T00:01:40.000000Z: no leader was there to submit their tasks in time";
        assert_eq!(plan.left_out.unwrap(), why);
        let one = new(Missed::One, Overlap::Allow).admit(None, at(0));
        let plan = one.plan(&[at(98), at(99), at(100)], None, at(100));
        assert_eq!((plan.slots, plan.skipped), (vec![at(100)], 2), "all but the last are left out");
        let three = new(all, Overlap::Allow).admit(None, at(0));
        let plan = three.plan(&[at(97), at(98), at(99), at(100)], None, at(100));
        assert_eq!((plan.slots, plan.skipped), (vec![at(98), at(99), at(100)], 1));
        assert_eq!(one.plan(&[at(100)], None, at(1_000_000)).slots, [at(100)]);
    }

    #[test]
    fn an_overlap_is_treated_as_asked() {
        let plan = |overlap, previous| {
            let mut schedule = new(Missed::One, overlap).admit(None, at(0));
            schedule.last_task = Some(TaskId::from_bytes([1; 16]));
            schedule.plan(&[at(100)], previous, at(100))
        };
        for overlap in [Overlap::Allow, Overlap::Queue, Overlap::Skip, Overlap::Replace] {
            for previous in [None, Some(State::Completed)] {
                let plan = plan(overlap, previous);
                assert_eq!((plan.slots.len(), plan.cancel), (1, None), "nothing overlaps");
                assert_eq!((plan.skipped, plan.left_out), (0, None));
            }
        }
        let skipped = plan(Overlap::Skip, Some(State::Running));
        assert_eq!((skipped.slots, skipped.skipped), (vec![], 1));
        assert!(
            skipped.left_out.unwrap().ends_with("the task of the slot before was not over (overlap: skip)")
        );
        assert_eq!(plan(Overlap::Allow, Some(State::Running)).slots.len(), 1);
        let replace = plan(Overlap::Replace, Some(State::Pending));
        assert_eq!((replace.slots.len(), replace.cancel), (1, Some(TaskId::from_bytes([1; 16]))));
        let queued = new(Missed::One, Overlap::Queue);
        let plain = NewTask::new(TaskId::from_bytes([0; 16]), Name::kind("k").unwrap(), Json::default());
        let queued = NewSchedule { template: Template::new(plain), ..queued }.admit(None, at(0));
        let task = queued.task(TaskId::from_bytes([2; 16]), Some(at(100)));
        assert_eq!(task.lane.unwrap().limit(), 1);
        assert_eq!(task.key.unwrap(), "schedule nightly 1970-01-01T00:01:40.000000Z");
    }

    #[test]
    fn a_change_of_times_begins_anew_and_nothing_else_does() {
        let first = new(Missed::One, Overlap::Allow).admit(None, at(0));
        let fired = Firing {
            namespace: first.namespace.clone(),
            name: first.name.clone(),
            expected: at(100),
            next_at: at(200),
            last_at: Some(at(100)),
            tasks: Vec::new(),
            skipped: 2,
            left_out: Some("two".into()),
            error: None,
        };
        assert!(fired.check(&first).is_ok());
        let first = fired.fired(&first, &[(TaskId::from_bytes([1; 16]), true)], at(101));
        assert!(fired.check(&first).is_err(), "once");
        assert_eq!((first.next_at, first.fired, first.skipped), (at(200), 1, 2));
        assert_eq!(first.left_out.as_deref(), Some("two"));
        let same = new(Missed::Skip, Overlap::Skip).admit(Some(&first), at(150));
        assert_eq!((same.next_at, same.fired, same.last_at), (at(200), 1, Some(at(100))));
        let other = NewSchedule { cron: "1 0 * * *".into(), ..new(Missed::One, Overlap::Allow) };
        assert_eq!(other.admit(Some(&first), at(150)).next_at, at(100), "the first from now on");
        let paused = NewSchedule { paused: Some(true), ..new(Missed::One, Overlap::Allow) };
        let paused = paused.admit(Some(&first), at(150));
        assert!(paused.paused && paused.next_at == at(200));
        let untouched = new(Missed::One, Overlap::Allow).admit(Some(&paused), at(160));
        assert!(untouched.paused && untouched.next_at == at(200), "a repeated set does not end a pause");
        let next_at = at(5000);
        let resumed = NewSchedule { paused: Some(false), next_at, ..new(Missed::One, Overlap::Allow) };
        assert_eq!(resumed.admit(Some(&paused), at(4900)).next_at, next_at, "a pause is not made up for");
    }

    #[test]
    fn policies_are_words() {
        for text in ["skip", "one", "all:1", "all:100"] {
            assert_eq!(text.parse::<Missed>().unwrap().to_string(), text);
        }
        for bad in ["", "all", "all:0", "all:101", "all:x", "One", "skip:1"] {
            assert!(bad.parse::<Missed>().is_err(), "{bad}");
        }
        for overlap in Overlap::ALL {
            assert_eq!(overlap.word().parse::<Overlap>().unwrap(), overlap);
        }
        assert!("".parse::<Overlap>().is_err());
    }

    #[test]
    fn senseless_schedules_are_refused() {
        let good = new(Missed::One, Overlap::Allow);
        assert!(good.check().is_ok());
        for bad in [
            NewSchedule { cron: String::new(), ..good.clone() },
            NewSchedule { zone: "x".repeat(300), ..good.clone() },
            NewSchedule { missed: Missed::All(NonZeroU32::MAX), ..good },
        ] {
            assert!(bad.check().is_err());
        }
    }
}
