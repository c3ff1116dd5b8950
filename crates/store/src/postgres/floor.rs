//! Where claims begin while somebody holds a transaction open.
//!
//! As long as an old snapshot is in use, the server keeps what is dead to everybody else. The entries of all
//! tasks that were claimed since then stay in the index that claims read, and every claim would walk over all
//! of them. So a process remembers, for each queue and kind, how far claims have come: the floor, behind
//! which the next one begins.
//!
//! What becomes claimable before a floor is not forgotten. Every now and then a claim looks at everything
//! again, sooner if this process itself has put something there; the dearer that is, the less often. The
//! processes tell one another when they did ([`Told`]), so that one does it for all. Without an old snapshot
//! nothing of this is used: every claim looks at everything.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use windlass_core::{Name, Spec, Task, Timestamp};

use super::board::Row;
use super::row::{self, Foreign, signed};
use super::tx::{Args, args};
use crate::request::{Claim, Turn};

/// How old a snapshot is that counts as in the way.
const OLD: Duration = Duration::from_secs(2);

/// How often everything is looked at, at most and at least.
const OFTEN: Duration = Duration::from_millis(500);
const SELDOM: Duration = Duration::from_secs(30);

/// Of what it costs to look at everything, how many times that passes before the next time, so that it takes
/// a small part of the time.
const REST: u32 = 20;

/// The same when something is known to be there; and what it may cost without any rest.
const SHORT_REST: u32 = 4;
const CHEAP: Duration = Duration::from_millis(25);

/// How much later than another a change may become visible that was made for an earlier moment.
const LATE: Duration = Duration::from_secs(10);

/// Floors that are remembered, and that the others are told about.
const MOST: usize = 10_000;
const MOST_TOLD: usize = 1_000;

/// Tasks that are claimed in one order: namespace, queue, kind.
type Range = (Name, Name, Name);

/// A place in that order: the rank turned around (`~rank`, which no number overflows), then the order of
/// submission.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place(i64, i64);

impl Place {
    /// Before every task.
    const LOWEST: Self = Self(i64::MIN, i64::MIN);
}

/// A task that has become claimable, and where.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Opened(Range, Place);

impl Opened {
    /// One that was there before.
    pub(super) fn known(seq: i64, task: &Task) -> Self {
        Self(range_of(&task.spec), Place(!task.status.rank, seq))
    }

    /// A new one, which comes after all of its rank.
    pub(super) fn new(task: &Task) -> Self {
        Self(range_of(&task.spec), Place(!task.status.rank, i64::MAX))
    }

    /// One that was given a slot.
    pub(super) fn read(row: &tokio_postgres::Row) -> Result<Self, Foreign> {
        let range = (row::name(row, 0)?, row::name(row, 1)?, row::name(row, 2)?);
        Ok(Self(range, Place(!row::get::<i64>(row, 3)?, row::get(row, 4)?)))
    }
}

fn range_of(spec: &Spec) -> Range {
    (spec.namespace.clone(), spec.queue.clone(), spec.kind.clone())
}

/// The ranges of a claim, in the order in which the statement numbers them.
fn ranges(claim: &Claim) -> impl Iterator<Item = Range> {
    let of = |queue: &Name, kind: &Name| (claim.namespace.clone(), queue.clone(), kind.clone());
    claim.queues.iter().flat_map(move |queue| claim.kinds.iter().map(move |kind| of(queue, kind)))
}

#[derive(Debug)]
struct Floor {
    place: Place,
    /// When everything was last looked at, what that cost, and whether it was this process that did.
    walked: Instant,
    took: Duration,
    is_ours: bool,
    /// When the place was last set by a claim that looked at everything.
    set: Instant,
    /// The first place at which something became claimable since then.
    opened: Option<Place>,
    /// Whether a claim that began here got less than it wanted.
    is_short: bool,
}

impl Floor {
    fn new(place: Place, walked: Instant, took: Duration, is_ours: bool) -> Self {
        Self { place, walked, took, is_ours, set: Instant::now(), opened: None, is_short: false }
    }

    /// A claim has come to a place. One that was sent before another had looked at everything does not know
    /// what that has found.
    fn reach(&mut self, place: Place, sent: Instant, was_floored: bool) {
        self.place = match (sent < self.set, was_floored) {
            (true, _) => self.place.min(place),
            (false, true) => self.place.max(place),
            (false, false) => place,
        };
    }

    /// When everything is to be looked at again.
    fn due(&self) -> Instant {
        let is_known = self.opened.is_some_and(|opened| opened <= self.place);
        self.walked + if is_known { self.took.saturating_sub(CHEAP) * SHORT_REST } else { rest(self.took) }
    }
}

/// How long to wait after a look at everything that took so long.
fn rest(took: Duration) -> Duration {
    (took * REST).clamp(OFTEN, SELDOM)
}

/// A look at what time asks for, which walks over what is dead like a claim: at what has become due since the
/// last one, or at everything.
#[derive(Debug)]
pub(super) struct Look {
    at: Instant,
    from: Option<Timestamp>,
}

impl Look {
    pub(super) fn is_whole(&self) -> bool {
        self.from.is_none()
    }

    /// From which moment on.
    pub(super) fn from(&self) -> Timestamp {
        self.from.unwrap_or(Timestamp::MIN)
    }
}

/// Looks at what time asks for: when the last one at everything was, what it cost, and the last moment that
/// any of them has found.
#[derive(Debug)]
struct Looks {
    walked: Instant,
    took: Duration,
    reached: Timestamp,
}

/// Where a claim that was sent began.
#[derive(Debug)]
pub(super) struct Began {
    at: Instant,
    /// For each of its ranges; empty if none begins at a floor.
    places: Vec<Place>,
}

impl Began {
    /// What the statement is told.
    pub(super) fn args(&self) -> Args {
        args![
            self.places.iter().map(|place| place.0).collect::<Vec<_>>() => INT8_ARRAY,
            self.places.iter().map(|place| place.1).collect::<Vec<_>>() => INT8_ARRAY,
        ]
    }

    fn is_floored(&self, range: usize) -> bool {
        self.places.get(range).is_some_and(|place| *place != Place::LOWEST)
    }
}

#[derive(Debug, Default)]
struct State {
    is_hindered: bool,
    /// The transaction that keeps what is dead, and since when it has been seen.
    oldest: Option<(String, Instant)>,
    /// Whether anything was claimed since the last look at that.
    is_used: bool,
    floors: HashMap<Range, Floor>,
    looks: Option<Looks>,
    /// Whether a claim that began at a floor which has been forgotten since got less than it wanted.
    is_owing: bool,
}

/// The floors of this process.
#[derive(Debug, Default)]
pub(super) struct Floors {
    state: Mutex<State>,
    /// Nothing is ever in the way: a test holds the clock, and floors live by the time that really passes.
    are_unused: bool,
}

impl Floors {
    /// None, where a clock is held by hand.
    pub(super) fn unless(clock_is_held: bool) -> Self {
        Self { are_unused: clock_is_held, ..Self::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a claim that is sent now begins.
    pub(super) fn begin(&self, claim: &Claim) -> Began {
        let (at, mut places) = (Instant::now(), Vec::new());
        let mut state = self.state();
        state.is_used = true;
        if state.is_hindered {
            places.extend(ranges(claim).map(|range| match state.floors.get_mut(&range) {
                Some(floor) if at < floor.due() => floor.place,
                Some(floor) => {
                    // Others who claim meanwhile need not do the same.
                    (floor.walked, floor.opened) = (at, None);
                    Place::LOWEST
                }
                None => Place::LOWEST,
            }));
        }
        Began { at, places }
    }

    /// A claim is done. Its tasks are in order.
    pub(super) fn end(&self, claim: &Claim, began: &Began, claimed: &[Row]) {
        let took = began.at.elapsed();
        let state = &mut *self.state();
        let is_one = claim.queues.len() == 1 && claim.kinds.len() == 1;
        let last = claimed.len().saturating_sub(1);
        let mut reached = HashMap::new();
        for row in &claimed[if is_one { last } else { 0 }..] {
            reached
                .insert((&row.task.spec.queue, &row.task.spec.kind), Place(!row.task.status.rank, row.seq));
        }
        let of = |queue: &Name, kind: &Name| (claim.namespace.clone(), queue.clone(), kind.clone());
        let touched: Vec<Range> = if began.places.is_empty() {
            reached.keys().map(|(queue, kind)| of(queue, kind)).collect()
        } else {
            ranges(claim).collect()
        };
        let is_short = claimed.len() < claim.limit;
        for (n, range) in touched.into_iter().enumerate() {
            let place = reached.get(&(&range.1, &range.2)).copied();
            let was_floored = began.is_floored(n);
            // Somebody has to be told, also if nothing is in the way any more.
            state.is_used |= was_floored && is_short;
            let floor = match (state.floors.get_mut(&range), place) {
                (Some(floor), _) => floor,
                (None, Some(place)) if !was_floored => {
                    state.floors.entry(range).or_insert_with(|| Floor::new(place, began.at, took, true))
                }
                (None, _) => {
                    state.is_owing |= was_floored && is_short;
                    continue;
                }
            };
            if let Some(place) = place {
                floor.reach(place, began.at, was_floored);
            }
            if was_floored {
                floor.is_short |= is_short;
            } else {
                (floor.walked, floor.took) = (floor.walked.max(began.at), took);
                (floor.set, floor.is_ours, floor.is_short) = (Instant::now(), true, false);
            }
        }
        if state.floors.len() > MOST {
            state.floors.clear();
        }
    }

    /// These claims came to nothing: what they had locked was passed over by others.
    pub(super) fn forget(&self, turns: &[Turn]) {
        let mut state = self.state();
        for range in turns.iter().filter_map(|turn| turn.claim.as_ref()).flat_map(ranges) {
            state.floors.remove(&range);
        }
    }

    /// Tasks have become claimable, and everybody can see it.
    pub(super) fn open(&self, opened: &[Opened]) {
        let mut state = self.state();
        if state.floors.is_empty() {
            return;
        }
        for Opened(range, place) in opened {
            if let Some(floor) = state.floors.get_mut(range) {
                floor.opened = Some(floor.opened.map_or(*place, |opened| opened.min(*place)));
            }
        }
    }

    /// How much a look at what time asks for has to look at.
    pub(super) fn look(&self) -> Look {
        let (mut state, at) = (self.state(), Instant::now());
        state.is_used = true;
        let looks =
            state.looks.as_ref().filter(|looks| state.is_hindered && at < looks.walked + rest(looks.took));
        Look { at, from: looks.map(|looks| looks.reached.minus(LATE)) }
    }

    /// It has found something up to a moment, or nothing. Says after how long there has to be another, if
    /// there is to be one soon.
    pub(super) fn looked(&self, look: &Look, found: Option<Timestamp>) -> Option<Duration> {
        let mut state = self.state();
        let is_hindered = state.is_hindered;
        let mut looks =
            Looks { walked: look.at, took: look.at.elapsed(), reached: found.unwrap_or_default() };
        if let Some(before) = &state.looks {
            looks.reached = looks.reached.max(before.reached);
            if !look.is_whole() {
                (looks.walked, looks.took) = (before.walked, before.took);
            }
        }
        let again = (looks.walked + rest(looks.took)).saturating_duration_since(Instant::now());
        state.looks = Some(looks);
        is_hindered.then_some(again)
    }

    /// Whether it is worth asking what is in the way.
    pub(super) fn is_used(&self) -> bool {
        let mut state = self.state();
        std::mem::take(&mut state.is_used) || state.is_hindered
    }

    /// Takes note of the oldest transaction: its number, and for how many seconds it has been open, where
    /// that may be known. Says whether it is in the way.
    pub(super) fn hear(&self, oldest: Option<(String, Option<f64>)>) -> bool {
        let mut state = self.state();
        let Some((number, seconds)) = oldest.filter(|_| !self.are_unused) else {
            (state.oldest, state.is_hindered) = (None, false);
            return false;
        };
        let since = match &state.oldest {
            Some((same, since)) if *same == number => *since,
            _ => Instant::now(),
        };
        state.is_hindered = since.elapsed() >= OLD || seconds.is_some_and(|open| open >= OLD.as_secs_f64());
        state.oldest = Some((number, since));
        state.is_hindered
    }

    /// The transaction that is in the way.
    pub(super) fn hindered_by(&self) -> Option<String> {
        let state = self.state();
        state.oldest.as_ref().filter(|_| state.is_hindered).map(|(number, _)| number.clone())
    }

    /// What the others are told: where claims have come that this process has last made from the beginning.
    pub(super) fn tell(&self) -> Args {
        let state = self.state();
        let is_news = |floor: &Floor| floor.is_ours && floor.walked.elapsed() < SELDOM;
        let ours: Vec<(&Range, &Floor)> =
            state.floors.iter().filter(|(_, floor)| is_news(floor)).take(MOST_TOLD).collect();
        let micros = |duration: Duration| signed(duration.as_micros());
        args![
            ours.iter().map(|((namespace, ..), _)| namespace.to_string()).collect::<Vec<_>>() => TEXT_ARRAY,
            ours.iter().map(|((_, queue, _), _)| queue.to_string()).collect::<Vec<_>>() => TEXT_ARRAY,
            ours.iter().map(|((.., kind), _)| kind.to_string()).collect::<Vec<_>>() => TEXT_ARRAY,
            ours.iter().map(|(_, floor)| floor.place.0).collect::<Vec<_>>() => INT8_ARRAY,
            ours.iter().map(|(_, floor)| floor.place.1).collect::<Vec<_>>() => INT8_ARRAY,
            ours.iter().map(|(_, floor)| micros(floor.walked.elapsed())).collect::<Vec<_>>() => INT8_ARRAY,
            ours.iter().map(|(_, floor)| micros(floor.took)).collect::<Vec<_>>() => INT8_ARRAY,
        ]
    }

    /// What another process has told.
    pub(super) fn adopt(&self, told: Told) {
        let Some(walked) = Instant::now().checked_sub(told.ago) else { return };
        let Told { range, place, took, .. } = told;
        let mut state = self.state();
        match state.floors.get_mut(&range) {
            // The moments are not exact: ours may come back to us.
            Some(floor) if walked <= floor.walked + Duration::from_millis(100) => {}
            Some(floor) => {
                // If they have come less far, there is something to claim that ours have passed.
                floor.is_short &= place < floor.place;
                (floor.place, floor.walked, floor.took) = (place, walked, took);
                (floor.set, floor.is_ours) = (Instant::now(), false);
            }
            None => {
                state.floors.insert(range, Floor::new(place, walked, took, false));
            }
        }
    }

    /// Whether somebody who got less than was wanted should ask again.
    pub(super) fn is_owing(&self) -> bool {
        let mut state = self.state();
        let (now, is_hindered) = (Instant::now(), state.is_hindered);
        let mut is_owing = std::mem::take(&mut state.is_owing);
        for floor in state.floors.values_mut().filter(|floor| floor.is_short) {
            if !is_hindered || floor.due() <= now {
                (floor.is_short, is_owing) = (false, true);
            }
        }
        is_owing
    }
}

/// What a process tells the others about a range.
#[derive(Debug)]
pub(super) struct Told {
    range: Range,
    place: Place,
    /// How long ago everything was looked at, and what that cost.
    ago: Duration,
    took: Duration,
}

impl Told {
    pub(super) fn read(row: &tokio_postgres::Row) -> Result<Self, Foreign> {
        Ok(Self {
            range: (row::name(row, 0)?, row::name(row, 1)?, row::name(row, 2)?),
            place: Place(row::get(row, 3)?, row::get(row, 4)?),
            ago: Duration::from_micros(row::unsigned(row, 5)?),
            took: Duration::from_micros(row::unsigned(row, 6)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::{Json, NewTask, TaskId, WorkerId};

    use super::super::board::Past;
    use super::*;

    fn kind() -> Name {
        Name::kind("k").unwrap_or_default()
    }

    fn claim(limit: usize) -> Claim {
        let worker = WorkerId::stored("w");
        Claim {
            worker,
            namespace: Name::default(),
            queues: vec![Name::default()],
            kinds: vec![kind()],
            limit,
        }
    }

    fn row(seq: i64) -> Row {
        let new = NewTask::new(TaskId::from_bytes([0; 16]), kind(), Json::default());
        Row::new(seq, String::new(), new.admit(Timestamp::MIN).0, Past::default())
    }

    fn hindered() -> Floors {
        let floors = Floors::default();
        assert!(!floors.hear(Some(("7".into(), Some(0.5)))), "it is young");
        assert!(floors.hear(Some(("7".into(), Some(2.5)))));
        floors
    }

    /// Claims and gets these. `took` is what that is said to have cost, so that no test depends on how long
    /// it takes.
    fn claimed(floors: &Floors, rows: &[Row], took: Duration) {
        floors.end(&claim(2), &floors.begin(&claim(2)), rows);
        floors.state().floors.values_mut().for_each(|floor| floor.took = took);
    }

    const DEAR: Duration = Duration::from_secs(1);

    #[test]
    fn a_claim_begins_where_the_last_one_has_come_to() {
        let floors = hindered();
        let first = floors.begin(&claim(2));
        assert_eq!(first.places, [Place::LOWEST]);
        floors.end(&claim(2), &first, &[row(1), row(2)]);
        floors.state().floors.values_mut().for_each(|floor| floor.took = DEAR);
        assert_eq!(floors.begin(&claim(2)).places, [Place(!0, 2)]);
        floors.hear(None);
        assert_eq!(floors.begin(&claim(2)).places, [], "nothing is in the way any more");
    }

    #[test]
    fn what_is_known_to_be_there_is_looked_for_at_once() {
        let floors = hindered();
        claimed(&floors, &[row(11), row(12)], Duration::ZERO);
        floors.open(&[Opened::new(&row(0).task)]);
        assert_eq!(
            floors.begin(&claim(2)).places,
            [Place(!0, 12)],
            "a new one comes after those of its rank"
        );
        floors.open(&[Opened::known(3, &row(3).task)]);
        assert_eq!(floors.begin(&claim(2)).places, [Place::LOWEST]);
        assert_eq!(floors.begin(&claim(2)).places, [Place(!0, 12)], "one claim does that for all");
    }

    #[test]
    fn a_claim_under_way_does_not_hide_what_another_has_found() {
        let floors = hindered();
        claimed(&floors, &[row(11), row(12)], Duration::ZERO);
        let under_way = floors.begin(&claim(2));
        floors.open(&[Opened::known(3, &row(3).task)]);
        let whole = floors.begin(&claim(2));
        assert_eq!((&*under_way.places, &*whole.places), (&[Place(!0, 12)][..], &[Place::LOWEST][..]));
        floors.end(&claim(2), &whole, &[row(3), row(4)]);
        floors.end(&claim(2), &under_way, &[row(13), row(14)]);
        assert_eq!(floors.begin(&claim(2)).places, [Place(!0, 4)], "there may be more behind it");
    }

    #[test]
    fn who_gets_too_little_is_asked_again() {
        let floors = hindered();
        claimed(&floors, &[row(1), row(2)], DEAR);
        let floored = floors.begin(&claim(2));
        floors.end(&claim(2), &floored, &[row(3)]);
        assert!(!floors.is_owing(), "not at once");
        floors.hear(None);
        assert!(floors.is_owing());
        assert!(!floors.is_owing(), "once is enough");
    }
}
