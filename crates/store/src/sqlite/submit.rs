//! Accepting tasks.

use rusqlite::Row;
use windlass_core::{NewTask, OnConflict, Rejected, WorkflowId};

use super::row;
use super::tx::Tx;
use crate::error::Result;
use crate::request::{Submitted, in_batch};

impl Tx<'_, '_> {
    /// Accepts all of `tasks`; any error makes the writer roll back all of them.
    pub(super) fn submit(&mut self, tasks: Vec<NewTask>) -> Result<Vec<Submitted>> {
        let len = tasks.len();
        let one = |(index, task)| self.submit_one(task)?.map_err(|rejected| in_batch(len, index, rejected));
        tasks.into_iter().enumerate().map(one).collect()
    }

    fn submit_one(&mut self, new: NewTask) -> Result<Result<Submitted, Rejected>> {
        if let Some(key) = &new.key {
            let values = [&*new.namespace, &*new.kind, key];
            let decode = |row: &Row<'_>| Ok((row::id(row, 0)?, row::state(row, 1)?));
            if let Some((id, state)) = self.read(|sql| &mut sql.task_by_key, values, decode)? {
                return Ok(match new.on_conflict {
                    OnConflict::Return => Ok(Submitted { id, state, created: false }),
                    OnConflict::Reject => Err(Rejected::KeyConflict { key: key.clone(), existing: id }),
                });
            }
        }
        if let Some(workflow) = WorkflowId::reserving(new.id)
            && self.read(|sql| &mut sql.has_workflow, [workflow.as_bytes()], |_| Ok(()))?.is_some()
        {
            return Ok(Err(Rejected::IdReserved { task: new.id, workflow }));
        }
        // The id is looked up only when there is something else to refuse: the unique index finds it at the
        // insert.
        if let Some(entity) = new.required_entity() {
            let values = [&*new.namespace, entity.as_str()];
            if self.read(|sql| &mut sql.has_entity, values, |_| Ok(()))?.is_none() {
                return Ok(Err(match self.task(new.id)? {
                    Some(_) => Rejected::IdConflict { task: new.id },
                    None => Rejected::UnknownEntity { entity: entity.as_str().into() },
                }));
            }
        }
        let seq = self.next_seq()?;
        let (task, payload, entry) = new.admit(self.now);
        if !self.insert(seq, &task, Some(&payload), None, &entry)? {
            return Ok(Err(Rejected::IdConflict { task: task.id }));
        }
        Ok(Ok(Submitted { id: task.id, state: task.status.state, created: true }))
    }
}
