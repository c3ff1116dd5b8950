//! Schedules: making, forgetting and firing them.

use windlass_core::{Firing, Invalid, Name, NewSchedule, Rejected, Schedule, Term, limits};

use super::row;
use super::tx::Tx;
use crate::error::Result;
use crate::request::Submitted;

impl Tx<'_, '_> {
    pub(super) fn set_schedule(&mut self, new: NewSchedule) -> Result<Schedule> {
        let before = self.schedule(&new.namespace, &new.name)?;
        if before.is_none() {
            let count = self.read(|sql| &mut sql.count_schedules, [], |row| row.get::<_, i64>(0))?;
            if count.is_some_and(|count| usize::try_from(count).is_ok_and(|count| count >= limits::SCHEDULES))
            {
                let one_more = limits::SCHEDULES + 1;
                return Err(Invalid::number("number of schedules", one_more, "at most 10000").into());
            }
        }
        let schedule = new.admit(before.as_ref(), self.now);
        self.put_schedule(&schedule)?;
        self.ledger.rings.timed += 1;
        Ok(schedule)
    }

    pub(super) fn remove_schedule(&mut self, namespace: &Name, name: &Name) -> Result<bool> {
        Ok(self.write(|sql| &mut sql.delete_schedule, [&**namespace, &**name])? > 0)
    }

    /// Submits what is due and moves the schedule on; any error makes the writer roll back all of it.
    pub(super) fn fire(&mut self, firing: &Firing, term: Option<Term>) -> Result<Vec<Submitted>> {
        self.check_term(term)?;
        let Some(before) = self.schedule(&firing.namespace, &firing.name)? else {
            return Err(Rejected::UnknownSchedule { name: firing.name.to_string() }.into());
        };
        firing.check(&before)?;
        let submitted = self.submit(firing.tasks.clone())?;
        let tasks: Vec<_> = submitted.iter().map(|one| (one.id, one.created)).collect();
        self.put_schedule(&firing.fired(&before, &tasks, self.now))?;
        Ok(submitted)
    }

    fn schedule(&mut self, namespace: &Name, name: &Name) -> Result<Option<Schedule>> {
        self.read(|sql| &mut sql.schedule, [&**namespace, &**name], row::schedule)
    }

    fn put_schedule(&mut self, schedule: &Schedule) -> Result<()> {
        self.write_with(|sql| &mut sql.put_schedule, |statement| row::put_schedule(statement, schedule))?;
        Ok(())
    }
}
