//! Invents tasks: every option, in every mixture, and now and then a senseless one.

use std::num::NonZeroU32;
use std::time::Duration;

use windlass_core::{
    Ageing, Backoff, Jitter, Lane, NewTask, OnConflict, RetryPolicy, Start, Timestamp, TraceParent, limits,
};

use super::world::{KEYS, LANES, TAGS, World};

/// Mostly none, sometimes one that others have too. It follows from the id, so that sequences are what they
/// would be without.
pub(super) fn trace(id: &[u8; 16]) -> Option<TraceParent> {
    let n = (id[0] % 5).saturating_sub(2);
    TraceParent::new([n; 16], [n; 8], id[1])
}

impl World {
    /// A task to submit.
    pub(super) fn new_task(&mut self) -> NewTask {
        let id = if self.random.chance(4) { self.task() } else { self.new_id() };
        let mut task = NewTask::new(id, self.kind(), self.json());
        task.namespace = self.namespace();
        task.queue = self.queue();
        if self.random.chance(40) {
            task.priority = self.random.pick(&[-1, 1, 1, 5, i32::MIN, i32::MAX]);
        }
        if self.random.chance(20) {
            task.ageing = self.ageing();
        }
        if self.random.chance(25) {
            task.key = Some(self.random.pick(&KEYS).into());
            task.on_conflict = self.random.pick(&[OnConflict::Return, OnConflict::Reject]);
        }
        if self.random.chance(40) {
            task.lane = Some(self.lane());
            task.require_entity = self.random.chance(15);
        }
        if self.random.chance(35) {
            task.start = self.begin();
        }
        if self.random.chance(20) {
            task.tags = self.random.some_of(&TAGS).into_iter().map(Into::into).collect();
        }
        task.max_attempts = NonZeroU32::new(self.random.pick(&[0, 1, 2, 3, 3]));
        task.timeout = self.random.pick(&[None, None, Some(30), Some(3600)]).map(Duration::from_secs);
        task.retry = self.policy();
        task.traceparent = trace(id.as_bytes());
        task.actor = self.random.pick(&[None, Some("ada"), Some("a\0c")]).map(Into::into);
        if self.random.chance(3) {
            self.spoil(&mut task);
        }
        task
    }

    fn ageing(&mut self) -> Ageing {
        let (per_hour, per_retry) =
            self.random.pick(&[(1_000, 0), (0, 2_000), (60_000, 500), (limits::AGEING, limits::AGEING)]);
        Ageing { per_hour, per_retry }
    }

    /// An entity's or a lane of its own. Tasks of one lane may give it different limits.
    fn lane(&mut self) -> Lane {
        let lane = if self.random.chance(50) {
            Lane::of(&self.entity())
        } else {
            let limit = self.random.pick(&[1, 1, 2, 3, limits::LANE_LIMIT]);
            Lane::new(self.random.pick(&LANES), limit).unwrap()
        };
        if self.random.chance(30) { lane.strict() } else { lane }
    }

    fn begin(&mut self) -> Start {
        let span = self.span();
        match self.random.below(20) {
            0..8 => Start::After(span),
            8..14 => Start::At(self.now.plus(span)),
            14..18 => Start::At(self.now.minus(span)),
            18 => Start::At(Timestamp::MAX),
            _ => Start::After(Duration::MAX),
        }
    }

    fn policy(&mut self) -> RetryPolicy {
        let growth = Backoff::Exponential { factor: 2.5 };
        let backoff = self.random.pick(&[
            Backoff::None,
            Backoff::Fixed,
            Backoff::Linear,
            growth,
            growth,
            Backoff::Fibonacci,
        ]);
        let jitter = self.random.pick(&[Jitter::None, Jitter::Full, Jitter::Percent(20)]);
        let base = Duration::from_millis(self.random.pick(&[0, 1, 1_000, 1_500]));
        RetryPolicy { backoff, base, cap: Duration::from_secs(5), jitter }
    }

    /// Makes one value senseless.
    fn spoil(&mut self, task: &mut NewTask) {
        match self.random.below(9) {
            0 => task.key = Some(String::new()),
            1 => task.key = Some("a\0b".into()),
            2 => task.key = Some("x".repeat(limits::KEY_BYTES + 1)),
            3 => task.tags = vec![String::new()],
            4 => task.tags = vec!["t".into(); limits::TAGS + 1],
            5 => task.timeout = Some(Duration::ZERO),
            6 => task.max_attempts = NonZeroU32::new(limits::MAX_ATTEMPTS + 1),
            7 => task.ageing.per_retry = limits::AGEING + 1,
            _ => task.retry.jitter = Jitter::Percent(101),
        }
    }
}
