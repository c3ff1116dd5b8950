//! Invents schedules and what becomes of their slots.

use std::num::NonZeroU32;
use std::time::Duration;

use windlass_core::{
    Firing, Missed, Name, NewSchedule, NewTask, Overlap, Schedule, Template, Timestamp, limits,
};

use super::operation::Operation;
use super::world::{SCHEDULES, World};

const MINUTE: Duration = Duration::from_secs(60);

impl World {
    /// A schedule, often one that is there already.
    pub(super) fn set_schedule(&mut self) -> Operation {
        let all = Missed::All(NonZeroU32::new(3).unwrap());
        let mut schedule = NewSchedule {
            namespace: self.namespace(),
            name: self.schedule_name(),
            cron: self.random.pick(&["* * * * *", "@daily", "o'cron \"é\""]).into(),
            zone: self.random.pick(&["UTC", "UTC", "Europe/Berlin"]).into(),
            template: Template::new(self.new_task()),
            missed: self.random.pick(&[Missed::Skip, Missed::One, all]),
            overlap: self.random.pick(&Overlap::ALL),
            paused: self.random.pick(&[None, None, Some(true), Some(false), Some(false)]),
            next_at: self.slot(),
        };
        match self.random.below(60) {
            0 => schedule.cron = String::new(),
            1 => schedule.zone = "z".repeat(limits::CRON_BYTES + 1),
            2 => schedule.missed = Missed::All(NonZeroU32::MAX),
            _ => {}
        }
        Operation::SetSchedule(Box::new(schedule))
    }

    pub(super) fn remove_schedule(&mut self) -> Operation {
        Operation::RemoveSchedule(self.namespace(), self.schedule_name())
    }

    fn schedule_name(&mut self) -> Name {
        Name::new("schedule", self.random.pick(&SCHEDULES)).unwrap()
    }

    /// A moment around now; now and then one that never comes.
    fn slot(&mut self) -> Timestamp {
        let span = MINUTE * u32::try_from(self.random.below(9)).unwrap();
        match self.random.below(10) {
            0 => Timestamp::MAX,
            1..5 => self.now.minus(span),
            _ => self.now.plus(span),
        }
    }

    /// Mostly the slots that a known schedule waits for; or what another has fired, or what is not there.
    pub(super) fn fire(&mut self) -> Operation {
        let Some(schedule) = (!self.schedules.is_empty()).then(|| self.random.pick(&self.schedules)) else {
            return self.set_schedule();
        };
        let tasks = self.slots(&schedule);
        let (namespace, name) = if self.random.chance(3) {
            (self.namespace(), self.schedule_name())
        } else {
            (schedule.namespace, schedule.name)
        };
        let by_hand = self.random.chance(10);
        let firing = Firing {
            namespace,
            name,
            expected: if self.random.chance(90) { schedule.next_at } else { self.slot() },
            // Set back now and then, so that keys are met again.
            next_at: match self.random.below(10) {
                0..3 => schedule.next_at,
                3 => schedule.next_at.minus(MINUTE),
                4 => Timestamp::MAX,
                _ => schedule.next_at.plus(MINUTE),
            },
            last_at: (!by_hand && !tasks.is_empty()).then_some(schedule.next_at),
            tasks,
            skipped: u32::try_from(self.random.below(3)).unwrap(),
            left_out: self.note().filter(|_| self.random.chance(20)),
            error: self.note().filter(|_| self.random.chance(20)),
        };
        Operation::Fire(firing, self.random.chance(20).then(|| self.term()))
    }

    /// Tasks for slots of a schedule; rarely something else.
    fn slots(&mut self, schedule: &Schedule) -> Vec<NewTask> {
        let many = self.random.weighted(&[(15, 0), (60, 1), (25, 3)]);
        let mut tasks = Vec::new();
        for n in 0..many {
            let slot = schedule.next_at.minus(MINUTE * n);
            let id = if self.random.chance(4) { self.task() } else { self.new_id() };
            tasks.push(match self.random.below(20) {
                0 => self.new_task(),
                1 => schedule.task(id, None),
                _ => schedule.task(id, Some(slot)),
            });
        }
        tasks
    }
}
