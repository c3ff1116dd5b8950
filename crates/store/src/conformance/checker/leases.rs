//! Rules about the claims of one task: what workers were told, beside what its history says.

use std::collections::BTreeMap;

use windlass_core::{Attempt, Entity, Lane, Lease, Reason, State, TaskId, history};

use super::Violation;
use super::event::Ending;
use super::histories::is_reopening;
use super::story::{Finish, FinishEnd, Handler, Told};
use super::violation::difference;
use crate::Record;

/// Checks what was told about one task. `record` is absent if the task is not there any more; little can be
/// said then.
pub(super) fn check(task: TaskId, told: &Told<'_>, record: Option<&Record>, found: &mut Vec<Violation>) {
    let claims = record.map(Claims::of);
    // One fault shows in many ways. These say most about it, in this order, and the others would only repeat
    // it.
    let worst = doubled(task, told, claims.as_ref()).or_else(|| handed_out_again(task, told));
    if let Some(worst) = worst {
        return found.push(worst);
    }
    found.extend(started_twice(task, told));
    let (Some(record), Some(claims)) = (record, claims) else { return };
    for handler in &told.handlers {
        found.extend(misinformed(task, handler, record, &claims));
    }
    for finish in &told.finishes {
        found.extend(misjudged(task, finish, told, &claims));
    }
    found.extend(uncancelled(task, told, record));
}

/// The claims of a task, by lease.
struct Claims {
    attempts: Vec<Attempt>,
    /// For each of them, in which life it was, and where the task rested before the next.
    rests: Vec<(u32, Vec<State>)>,
    /// Lives so far.
    lives: u32,
}

impl Claims {
    fn of(record: &Record) -> Self {
        let (mut rests, mut lives) = (Vec::<(u32, Vec<State>)>::new(), 0);
        for entry in &record.history {
            lives += u32::from(is_reopening(entry.reason));
            match rests.last_mut() {
                _ if entry.to == State::Claimed => rests.push((lives, Vec::new())),
                Some((_, rests)) => rests.push(entry.to),
                None => {}
            }
        }
        Self { attempts: history::attempts(&record.history), rests, lives }
    }

    fn place(lease: Lease) -> Option<usize> {
        usize::try_from(lease).ok()?.checked_sub(1)
    }

    fn attempt(&self, lease: Lease) -> Option<&Attempt> {
        self.attempts.get(Self::place(lease)?)
    }

    /// Where the task rested after this claim.
    fn rests(&self, lease: Lease) -> &[State] {
        Self::place(lease).and_then(|place| self.rests.get(place)).map_or(&[], |(_, rests)| rests)
    }

    fn life(&self, lease: Lease) -> u32 {
        Self::place(lease).and_then(|place| self.rests.get(place)).map_or(self.lives, |(life, _)| *life)
    }
}

/// I3: one lease was told twice that it made a change, or two were told that they ended the same life.
fn doubled(task: TaskId, told: &Told<'_>, claims: Option<&Claims>) -> Option<Violation> {
    let mut done: BTreeMap<Lease, (Ending, State)> = BTreeMap::new();
    for finish in &told.finishes {
        let FinishEnd::Done(state) = finish.end else { continue };
        let (lease, second) = (finish.lease, finish.ending);
        match done.insert(lease, (second, state)) {
            Some((first, _)) if first != second => {
                return Some(Violation::Contradiction { task, lease, first, second });
            }
            Some(_) => return Some(Violation::Doubled { task, first: lease, second: lease }),
            None => {}
        }
    }
    // Without a history only this is sure: nothing follows a completion.
    let life = |lease, state| match claims {
        Some(claims) => Some(claims.life(lease)),
        None => (state == State::Completed).then_some(0),
    };
    let mut ended = BTreeMap::new();
    let finals = done.into_iter().filter(|(_, (_, state))| state.is_final());
    for (second, (_, state)) in finals {
        let Some(life) = life(second, state) else { continue };
        if let Some(first) = ended.insert(life, second) {
            return Some(Violation::Doubled { task, first, second });
        }
    }
    None
}

/// I6: a completion was acknowledged, and a later claim ran. Leases only grow, so no clock is needed.
fn handed_out_again(task: TaskId, told: &Told<'_>) -> Option<Violation> {
    let acknowledged = |finish: &&Finish<'_>| {
        let acknowledged = matches!(finish.end, FinishEnd::Done(_) | FinishEnd::Repeated);
        acknowledged && finish.ending == Ending::Completed
    };
    let finished = told.finishes.iter().filter(acknowledged).map(|finish| finish.lease).min()?;
    let handed = told.handlers.iter().map(|handler| handler.lease).max()?;
    (handed > finished).then_some(Violation::HandedOutAfterFinish { task, finished, handed })
}

/// I4: a claim is given to one worker, which starts its handler once.
fn started_twice(task: TaskId, told: &Told<'_>) -> Option<Violation> {
    let mut starts: BTreeMap<Lease, usize> = BTreeMap::new();
    for handler in &told.handlers {
        *starts.entry(handler.lease).or_default() += 1;
    }
    let twice = starts.into_iter().find(|(_, times)| *times > 1);
    twice.map(|(lease, times)| Violation::StartedTwice { task, lease, times })
}

/// I4, I13: the handler ran for a claim that there was, and was told what the store knows.
fn misinformed(task: TaskId, handler: &Handler<'_>, record: &Record, claims: &Claims) -> Option<Violation> {
    let Handler { who, lease, attempt, entity, .. } = *handler;
    let Some(claim) = claims.attempt(lease) else {
        return Some(Violation::NeverClaimed { task, lease, who: who.into() });
    };
    let stored = record.task.spec.lane.as_ref().and_then(Lane::entity);
    let stored = stored.as_ref().map(Entity::as_str);
    let differs = difference("attempt", &attempt, &claim.number);
    let differs = differs.or_else(|| difference("entity", &entity, &stored));
    differs.map(|(what, told, stored)| Violation::Altered { task, what, told, stored })
}

/// I5, I6: a finish that was acknowledged is what ended that claim, and one that was refused did not.
fn misjudged(task: TaskId, finish: &Finish<'_>, told: &Told<'_>, claims: &Claims) -> Option<Violation> {
    let Finish { who, lease, ending, end, .. } = *finish;
    let claim = claims.attempt(lease);
    let ended = claim.and_then(|claim| claim.ended);
    match end {
        FinishEnd::Unknown => return None,
        FinishEnd::Refused => {
            let others = told.finishes.iter().filter(|other| other.lease == lease);
            let refused = others.clone().all(|other| other.end == FinishEnd::Refused);
            // An operator's cancel looks the same as the handler's own.
            let done = ended.is_some_and(|ended| ending.may_be(ended)) && ending != Ending::Cancelled;
            return (refused && done).then_some(Violation::RefusedButDone { task, lease, ending });
        }
        FinishEnd::Done(_) if ended.is_some_and(|ended| ending.may_be(ended)) => return None,
        // Whoever ended it, it rested where this finish would have left it.
        FinishEnd::Repeated if claims.rests(lease).iter().any(|state| ending.rests_in(*state)) => {
            return None;
        }
        FinishEnd::Done(_) | FinishEnd::Repeated => {}
    }
    Some(match (claim, ended) {
        (None, _) => Violation::NeverClaimed { task, lease, who: who.into() },
        (_, Some(ended)) if !is_by_finish(ended) => Violation::Zombie { task, lease, ending, ended },
        (_, ended) => {
            let found = ended.map_or_else(|| "that it is still held".into(), |ended| ended.to_string());
            Violation::FinishLost { task, lease, ending, found }
        }
    })
}

/// Whether only the holder's own finish ends a claim for this reason.
fn is_by_finish(reason: Reason) -> bool {
    matches!(reason, Reason::Completed | Reason::Failed | Reason::Snoozed)
}

/// I19: an acknowledged cancel is in the history.
fn uncancelled(task: TaskId, told: &Told<'_>, record: &Record) -> Option<Violation> {
    let cancelled = record.history.iter().filter(|entry| entry.to == State::Cancelled).count();
    let changed = told.cancels.iter().filter(|changed| **changed).count();
    let lost = cancelled < changed || cancelled == 0 && !told.cancels.is_empty();
    lost.then_some(Violation::CancelLost { task })
}
