//! What goes wrong between one process and the store, call by call.

use std::time::Duration;

use tokio::time::Instant;

use super::random::Random;

/// What happens to one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// It is not done, and so the answer says, after this long.
    Refused(Duration),
    /// It is done, and the answer comes this much later.
    Slow(Duration),
    /// It is done, and after this long the caller is told that nobody knows.
    Lost(Duration),
    /// It is on its way for so long before it is done. A caller that does not wait that long does not undo
    /// it.
    Late(Duration),
    /// The caller is told at once that nobody knows, and it is done later.
    Ghost(Duration),
}

/// The longest that any call is held up.
pub(crate) const LONGEST: Duration = Duration::from_secs(60);

/// A ghost is done within this time: a worker looks twice for claims that no answer told it of, the second
/// time after 5 s.
pub(crate) const GHOST: Duration = Duration::from_secs(4);

/// A time of one sort of failure.
#[derive(Clone, Debug)]
pub(crate) struct Spell {
    /// When it ends.
    pub(crate) until: Instant,
    /// Only calls of this name; all if absent.
    pub(crate) verb: Option<&'static str>,
    /// What it is like.
    pub(crate) sort: Sort,
}

/// What a spell is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sort {
    /// Nothing gets through, and the caller is told so.
    Cut,
    /// Everything is done, and nobody is told.
    Mute,
    /// Everything takes seconds.
    Slow,
    /// Anything may happen.
    Storm,
    /// Signals do not arrive; calls do.
    Deaf,
}

/// The weather of one process.
#[derive(Debug)]
pub(crate) struct Weather {
    random: Random,
    /// Calls of a thousand that something happens to by itself.
    per_mille: u64,
    spells: Vec<Spell>,
    calm: bool,
    /// When something last happened.
    troubled_at: Option<Instant>,
    /// Whether anything was done after its caller had got an answer.
    ghosts: bool,
}

impl Weather {
    /// Where something happens to so many of a thousand calls.
    pub(crate) fn new(random: Random, per_mille: u64) -> Self {
        Self { random, per_mille, spells: Vec::new(), calm: false, troubled_at: None, ghosts: false }
    }

    /// A spell begins.
    pub(crate) fn begin(&mut self, spell: Spell) {
        self.spells.push(spell);
    }

    /// From now on nothing happens.
    pub(crate) fn calm_down(&mut self) {
        self.calm = true;
    }

    /// When something last happened to a call.
    pub(crate) fn troubled_at(&self) -> Option<Instant> {
        self.troubled_at
    }

    /// Whether anything was done after its caller had got an answer.
    pub(crate) fn had_ghosts(&self) -> bool {
        self.ghosts
    }

    /// Whether signals are lost now.
    pub(crate) fn is_deaf(&self) -> bool {
        let now = Instant::now();
        !self.calm && self.spells.iter().any(|spell| spell.sort == Sort::Deaf && spell.until > now)
    }

    /// What happens to a call of `verb`.
    pub(crate) fn next(&mut self, verb: &'static str) -> Fault {
        if self.calm {
            return Fault::None;
        }
        let now = Instant::now();
        self.spells.retain(|spell| spell.until > now);
        let hit = |spell: &&Spell| spell.sort != Sort::Deaf && spell.verb.is_none_or(|only| only == verb);
        let sort = self.spells.iter().find(hit).map(|spell| spell.sort);
        let random = &mut self.random;
        let fault = match sort {
            Some(Sort::Cut) => Fault::Refused(random.millis(0, 20)),
            Some(Sort::Mute) => Fault::Lost(random.millis(0, 2_000)),
            Some(Sort::Slow) if random.chance(50) => Fault::Slow(random.seconds(0, 10)),
            Some(Sort::Slow) => Fault::Late(random.seconds(0, 10)),
            Some(Sort::Storm) if random.chance(60) => any(random),
            None if random.per_mille(self.per_mille) => any(random),
            Some(Sort::Storm | Sort::Deaf) | None => Fault::None,
        };
        if fault != Fault::None {
            self.troubled_at = Some(now);
        }
        self.ghosts |= matches!(fault, Fault::Ghost(_));
        fault
    }
}

fn any(random: &mut Random) -> Fault {
    let longest = LONGEST.as_secs();
    let delay = match random.weighted(&[(30, 0), (40, 1), (20, 2), (10, 3)]) {
        0 => Duration::ZERO,
        1 => random.millis(1, 500),
        2 => random.seconds(1, 10),
        _ => random.seconds(10, longest),
    };
    match random.weighted(&[(25, 0), (20, 1), (25, 2), (20, 3), (10, 4)]) {
        0 => Fault::Refused(delay),
        1 => Fault::Slow(delay),
        2 => Fault::Lost(delay),
        3 => Fault::Late(delay),
        _ => Fault::Ghost(random.seconds(0, GHOST.as_secs())),
    }
}
