//! Workflows that have not moved for too long.

use std::time::Duration;

use super::{Workflow, WorkflowState};
use crate::time::Timestamp;

/// How long workflows may rest in a state before somebody should look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// Waiting for a workflow within, or paused.
    pub dependencies: Duration,
    /// Waiting for a moment, from that moment on.
    pub retry: Duration,
    /// With steps that can run or are running, none of which ends.
    pub in_process: Duration,
    /// In any other state that is not final.
    pub otherwise: Duration,
    /// From start to end.
    pub lifetime: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        Self {
            dependencies: minutes(60),
            retry: minutes(30),
            in_process: minutes(30),
            otherwise: minutes(24 * 60),
            lifetime: minutes(24 * 60),
        }
    }
}

/// A workflow that has used up most of its time, or more.
#[derive(Clone, PartialEq, Debug)]
pub struct Stale {
    /// The workflow.
    pub workflow: Workflow,
    /// How long it has rested, or lived if that is what is too long.
    pub rested: Duration,
    /// How long it may.
    pub allowed: Duration,
}

impl Stale {
    /// From which part of the time on it is told.
    const WARNING: f64 = 0.8;

    /// Whether its time is used up, and not only most of it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.rested >= self.allowed
    }

    /// `stale` or `warning`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        if self.is_over() { "stale" } else { "warning" }
    }
}

impl Patience {
    /// A workflow, if it has used up four fifths of its time. One that waits for a retry rests from `due_at`
    /// on, when the first of its tasks is due: until then it does what it was told to. From start to end
    /// everything counts.
    #[must_use]
    pub fn check(&self, workflow: &Workflow, due_at: Option<Timestamp>, now: Timestamp) -> Option<Stale> {
        let (since, allowed) = match workflow.state {
            state if state.is_final() => return None,
            WorkflowState::WaitingForDependencies => (workflow.updated_at, self.dependencies),
            WorkflowState::WaitingForRetry => {
                (due_at.map_or(workflow.updated_at, |due| due.max(workflow.updated_at)), self.retry)
            }
            WorkflowState::StepsInProcess => (workflow.updated_at, self.in_process),
            _ => (workflow.updated_at, self.otherwise),
        };
        let times = [(now.since(since), allowed), (now.since(workflow.created_at), self.lifetime)];
        let used =
            |(rested, allowed): &(Duration, Duration)| rested.as_secs_f64() / allowed.as_secs_f64().max(1e-9);
        let worst = times.into_iter().max_by(|a, b| used(a).total_cmp(&used(b)))?;
        let (rested, allowed) = worst;
        (used(&worst) >= Stale::WARNING).then(|| Stale { workflow: workflow.clone(), rested, allowed })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::json::Json;
    use crate::{Blueprint, Definition, NewWorkflow, Source, WorkflowId};

    const HOUR: Duration = Duration::from_secs(3600);

    /// As it begins, at the beginning of time.
    fn workflow() -> Workflow {
        let definition: Definition = serde_json::from_value(json!({ "name": "test", "steps": {} })).unwrap();
        let blueprint = Blueprint::of(definition.clone()).unwrap();
        let id = WorkflowId::new(Uuid::from_u128(1 << 64));
        let new = NewWorkflow::new(id, Source::AdHoc(Box::new(definition)), Json::default());
        new.admit(&blueprint, "1".into(), crate::Within::default(), at(Duration::ZERO)).workflow
    }

    fn at(time: Duration) -> Timestamp {
        Timestamp::from_micros(0).plus(time)
    }

    /// The word, and how long it may, `rested` after it was made and came to a state.
    fn told(state: WorkflowState, rested: Duration) -> Option<(&'static str, Duration)> {
        let stale = Patience::default().check(&Workflow { state, ..workflow() }, None, at(rested))?;
        assert_eq!(stale.rested, rested);
        Some((stale.word(), stale.allowed))
    }

    #[test]
    fn each_state_has_its_time() {
        let minutes = |minutes: u32| minutes * Duration::from_secs(60);
        for state in WorkflowState::ALL {
            let allowed = match state {
                WorkflowState::WaitingForDependencies => minutes(60),
                WorkflowState::WaitingForRetry | WorkflowState::StepsInProcess => minutes(30),
                state if state.is_final() => {
                    assert_eq!(told(state, 1_000 * HOUR), None, "{state}: what is over may rest");
                    continue;
                }
                _ => 24 * HOUR,
            };
            for (percent, word) in
                [(0, None), (79, None), (80, Some("warning")), (99, Some("warning")), (100, Some("stale"))]
            {
                let expected = word.map(|word| (word, allowed));
                assert_eq!(told(state, allowed * percent / 100), expected, "{state} after {percent} %");
            }
        }
    }

    #[test]
    fn a_life_is_too_long_however_lively() {
        let lived = |hours: u32| {
            let now = at(hours * HOUR);
            let lively = Workflow { state: WorkflowState::StepsInProcess, updated_at: now, ..workflow() };
            Patience::default().check(&lively, None, now)
        };
        assert_eq!(lived(19), None);
        let (near, over) = (lived(20).unwrap(), lived(24).unwrap());
        assert_eq!((near.word(), near.rested, near.allowed), ("warning", 20 * HOUR, 24 * HOUR));
        assert_eq!((over.word(), over.rested), ("stale", 24 * HOUR));
        // What is worse is told: here half an hour of rest, of half an hour.
        let now = at(20 * HOUR);
        let updated_at = now.minus(HOUR / 2);
        let resting = Workflow { state: WorkflowState::StepsInProcess, updated_at, ..workflow() };
        let stale = Patience::default().check(&resting, None, now).unwrap();
        assert_eq!((stale.word(), stale.rested, stale.allowed), ("stale", HOUR / 2, HOUR / 2));
    }

    /// C45: a wait that was asked for is none too long.
    #[test]
    fn a_retry_is_waited_for_from_its_moment_on() {
        let waiting = Workflow { state: WorkflowState::WaitingForRetry, ..workflow() };
        let due = Some(at(2 * HOUR));
        let told =
            |now| Patience::default().check(&waiting, due, now).map(|stale| (stale.word(), stale.rested));
        assert_eq!(told(at(HOUR)), None);
        assert_eq!(told(at(2 * HOUR)), None);
        assert_eq!(told(at(2 * HOUR + HOUR * 39 / 100)), None);
        assert_eq!(told(at(2 * HOUR + HOUR * 4 / 10)), Some(("warning", HOUR * 4 / 10)));
        assert_eq!(told(at(2 * HOUR + HOUR / 2)), Some(("stale", HOUR / 2)));
        // What was due before it came to this state rests since it did.
        let early = Patience::default().check(&waiting, Some(Timestamp::MIN), at(HOUR / 2)).unwrap();
        assert_eq!(early.rested, HOUR / 2);
        // Other states wait for no moment, and the whole of a life counts all the same.
        let busy = Workflow { state: WorkflowState::StepsInProcess, ..workflow() };
        assert!(Patience::default().check(&busy, due, at(HOUR)).is_some_and(|stale| stale.is_over()));
        let long = Patience::default().check(&waiting, Some(at(48 * HOUR)), at(24 * HOUR)).unwrap();
        assert_eq!((long.word(), long.allowed), ("stale", 24 * HOUR));
    }
}
