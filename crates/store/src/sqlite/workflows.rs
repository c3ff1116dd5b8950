//! Definitions and workflows: what is written about them.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;

use rusqlite::{Row, params};
use windlass_core::{
    Admission, Before, Blueprint, By, Cascade, Cascaded, Definition, Ended, HeldLane, Json, LanesAbove, Name,
    NewWorkflow, OnConflict, Rejected, Retention, Source, Steering, Task, TaskId, Token, Wanted, Within,
    Workflow, WorkflowId, conclude, limits, nest,
};

use super::failure::failure;
use super::row;
use super::tx::{Sort, Tx};
use super::workflow_row::{self, Stored};
use crate::error::Result;
use crate::workflow::{Defined, Started, check_definition, next_version};

impl Tx<'_, '_> {
    pub(super) fn define(&mut self, namespace: &Name, definition: Definition) -> Result<Defined> {
        let (name, wanted) = (definition.name.clone(), definition.version.clone());
        let (blueprint, content) = check_definition(definition)?;
        let version = match wanted {
            Some(version) => match self.definition(namespace, &name, Some(&version))? {
                Some((_, known, _)) if known.definition().content() == content => {
                    return Ok(Defined { version, created: false });
                }
                Some(_) => {
                    return Err(Rejected::DefinitionConflict { name: name.to_string(), version }.into());
                }
                None => version,
            },
            None => {
                let values = [&**namespace, &*name, &*content];
                if let Some(version) = self.read(|sql| &mut sql.same_definition, values, |row| row.get(0))? {
                    return Ok(Defined { version, created: false });
                }
                let known = self.sql.definition_versions.query_map([&**namespace, &*name], |row| row.get(1));
                let known: Vec<String> = known.and_then(Iterator::collect).map_err(failure)?;
                next_version(known.iter().map(String::as_str))
            }
        };
        self.insert_definition(namespace, &version, &content, &blueprint)?;
        Ok(Defined { version, created: true })
    }

    fn insert_definition(
        &mut self,
        namespace: &Name,
        version: &str,
        content: &str,
        blueprint: &Arc<Blueprint>,
    ) -> Result<i64> {
        let seq = self.next_seq()?;
        let (name, now) = (&blueprint.definition().name, self.now.as_micros());
        let values = params![seq, &**namespace, &**name, version, content, blueprint.len(), now];
        self.write(|sql| &mut sql.insert_definition, values)?;
        Ok(seq)
    }

    /// A definition with its number and version; the newest of that name if no version is asked for.
    fn definition(
        &mut self,
        namespace: &Name,
        name: &Name,
        version: Option<&str>,
    ) -> Result<Option<(i64, Arc<Blueprint>, String)>> {
        if version.is_some_and(Workflow::is_own_version) {
            return Ok(None);
        }
        let found = match version {
            Some(version) => {
                let values = [&**namespace, &**name, version];
                self.read(|sql| &mut sql.definition_by_version, values, workflow_row::definition)?
            }
            None => {
                let values = [&**namespace, &**name];
                self.read(|sql| &mut sql.newest_definition, values, workflow_row::definition)?
            }
        };
        let Some((seq, version, content, _)) = found else { return Ok(None) };
        Ok(Some((seq, self.blueprint(seq, || Ok(content))?, version)))
    }

    fn blueprint(&mut self, seq: i64, content: impl FnOnce() -> Result<String>) -> Result<Arc<Blueprint>> {
        if let Some(known) = self.blueprints.get(seq) {
            return Ok(known);
        }
        let read = Blueprint::stored(&content()?);
        let blueprint = Arc::new(read.map_err(|why| failure(workflow_row::unreadable(why)))?);
        self.blueprints.put(seq, &blueprint);
        Ok(blueprint)
    }

    /// The definition that a workflow follows.
    fn blueprint_of(&mut self, stored: &Stored) -> Result<Arc<Blueprint>> {
        let seq = stored.definition;
        if let Some(known) = self.blueprints.get(seq) {
            return Ok(known);
        }
        let content =
            self.read(|sql| &mut sql.definition_content, [seq], |row| row.get(0))?.unwrap_or_default();
        self.blueprint(seq, || Ok(content))
    }

    pub(super) fn workflow(&mut self, id: WorkflowId) -> Result<Option<Stored>> {
        self.read(|sql| &mut sql.workflow_by_id, [id.as_bytes()], workflow_row::stored)
    }

    /// The workflow that a step is.
    fn child(&mut self, step: TaskId) -> Result<Option<Stored>> {
        self.read(|sql| &mut sql.workflow_of_step, [step.as_bytes()], workflow_row::stored)
    }

    /// Makes a workflow; any error makes the writer roll back all of it.
    pub(super) fn start(&mut self, new: NewWorkflow) -> Result<Started> {
        let (blueprint, version, definition) = match &new.source {
            Source::Named { name, version } => {
                let Some((seq, blueprint, version)) =
                    self.definition(&new.namespace, name, version.as_deref())?
                else {
                    let (name, version) = (name.to_string(), version.clone());
                    return Err(Rejected::UnknownDefinition { name, version }.into());
                };
                (blueprint, version, Ok(seq))
            }
            Source::AdHoc(definition) => {
                let (blueprint, content) = check_definition((**definition).clone())?;
                (blueprint, Workflow::own_version(new.id), Err(content))
            }
        };
        if let Some(key) = &new.key {
            let values = [&*new.namespace, &*blueprint.definition().name, key];
            if let Some(Stored { workflow, .. }) =
                self.read(|sql| &mut sql.workflow_by_key, values, workflow_row::stored)?
            {
                let (id, state) = (workflow.id, workflow.state);
                return match new.on_conflict {
                    OnConflict::Return => Ok(Started { id, state, created: false }),
                    OnConflict::Reject => {
                        Err(Rejected::WorkflowKeyConflict { key: key.clone(), existing: id }.into())
                    }
                };
            }
        }
        let within = match &new.parent {
            Some(token) => match self.nest(token, new.id)? {
                Ok(within) => within,
                Err(started) => return Ok(started),
            },
            None => Within::default(),
        };
        if blueprint.has_lanes() {
            let held = self.lanes_held(new.parent.as_ref().map(|token| token.task))?;
            new.check_lanes(&blueprint, &held)?;
        }
        let reserved = new.id.reserved();
        let range = [reserved.start().as_bytes(), reserved.end().as_bytes()];
        if self.workflow(new.id)?.is_some()
            || self.read(|sql| &mut sql.has_tasks_between, range, |_| Ok(()))?.is_some()
        {
            return Err(Rejected::WorkflowIdConflict { workflow: new.id }.into());
        }
        let definition = match definition {
            Ok(seq) => seq,
            Err(content) => self.insert_definition(&new.namespace, &version, &content, &blueprint)?,
        };
        let started = self.admit(new.admit(&blueprint, version, within, self.now), definition)?;
        self.follow_up()?;
        Ok(started)
    }

    fn admit(&mut self, admission: Admission, definition: i64) -> Result<Started> {
        let Admission { workflow, entries, input, steps, ended, activity } = admission;
        self.ledger.tally.count(&workflow, 1);
        self.ledger.tally.note(&workflow.namespace, &activity, self.now);
        for (task, result, entry) in &steps {
            let seq = self.next_seq()?;
            if !self.insert(seq, task, None, result.as_ref(), entry)? {
                return Err(Rejected::WorkflowIdConflict { workflow: workflow.id }.into());
            }
        }
        let stored = Stored { seq: self.next_seq()?, definition, workflow };
        self.write_with(|sql| &mut sql.put_workflow, |statement| workflow_row::put(statement, &stored))?;
        self.tell_workflow(&stored.workflow)?;
        self.write(|sql| &mut sql.insert_input, params![stored.seq, input.as_str()])?;
        for entry in &entries {
            self.write_entry(stored.seq, entry)?;
        }
        let Workflow { id, state, .. } = stored.workflow;
        self.ledger.rings.settled += u64::from(state.is_final());
        if let Some((step, ended)) = ended {
            self.conclude(step, &ended)?;
        }
        Ok(Started { id, state, created: true })
    }

    fn write_entry(&mut self, workflow: i64, entry: &windlass_core::WorkflowEntry) -> Result<()> {
        self.write_with(
            |sql| &mut sql.insert_workflow_history,
            |statement| workflow_row::insert_entry(statement, workflow, entry),
        )?;
        Ok(())
    }

    /// Lets a step wait for the workflow that it is, and says where that is; or what the step has started
    /// already.
    fn nest(&mut self, token: &Token, id: WorkflowId) -> Result<Result<Within, Started>> {
        let Some(found) = self.task(token.task)? else {
            return Err(Rejected::NotFound { task: token.task }.into());
        };
        let (seq, task) = &*found;
        let parent = match task.spec.workflow {
            Some(workflow) => self.workflow(workflow)?.map(|stored| stored.workflow),
            None => None,
        };
        let changes = nest(&Before { workflow: parent.as_ref(), ..Before::of(task) }, token, self.now)?;
        if changes.tasks.is_empty()
            && let Some(Stored { workflow, .. }) = self.child(task.id)?
        {
            return Ok(Err(Started { id: workflow.id, state: workflow.state, created: false }));
        }
        let within = Within::step(task, parent.as_ref(), id)?;
        self.write_changes(*seq, task, &changes, true)?;
        Ok(Ok(within))
    }

    /// The lanes of a step and of those above it.
    fn lanes_held(&mut self, mut step: Option<TaskId>) -> Result<Vec<HeldLane>> {
        let mut held = Vec::new();
        while let Some(id) = step {
            let (Some(found), Some(above)) = (self.task(id)?, self.workflow(WorkflowId::of(id))?) else {
                break;
            };
            held.extend(HeldLane::of(&found.1, &*self.blueprint_of(&above)?));
            step = above.workflow.parent;
        }
        Ok(held)
    }

    /// The lanes that are held above a step.
    pub(super) fn lanes_above(&mut self, task: &Task) -> Result<Option<LanesAbove>> {
        let Some(id) = task.spec.workflow else { return Ok(None) };
        let Some(own) = self.workflow(id)? else { return Ok(None) };
        let (blueprint, held) = (self.blueprint_of(&own)?, self.lanes_held(own.workflow.parent)?);
        Ok(Some(LanesAbove::of(task, &blueprint, held)))
    }

    pub(super) fn steer(&mut self, id: WorkflowId, steering: &Steering, by: &By) -> Result<Workflow> {
        self.steer_one(id, steering, by)?;
        self.follow_up()?;
        let stored = self.workflow(id)?.ok_or(Rejected::UnknownWorkflow { workflow: id })?;
        Ok(stored.workflow)
    }

    fn steer_one(&mut self, id: WorkflowId, steering: &Steering, by: &By) -> Result<()> {
        let stored = self.workflow(id)?.ok_or(Rejected::UnknownWorkflow { workflow: id })?;
        let mut cascade = Cascade::new(self.blueprint_of(&stored)?, stored.workflow.clone(), self.now);
        cascade.steer(steering, by)?;
        self.drive(&stored, cascade)
    }

    /// What has to follow from all that was done to tasks of workflows.
    pub(super) fn follow_up(&mut self) -> Result<()> {
        while let Some((id, noted)) = self.touched.pop() {
            let Some(stored) = self.workflow(id)? else { continue };
            let mut cascade = Cascade::new(self.blueprint_of(&stored)?, stored.workflow.clone(), self.now);
            noted.tell(&mut cascade);
            self.drive(&stored, cascade)?;
        }
        Ok(())
    }

    fn conclude(&mut self, step: TaskId, ended: &Ended) -> Result<()> {
        let Some(found) = self.task(step)? else { return Ok(()) };
        let (seq, task) = &*found;
        self.write_changes(*seq, task, &conclude(task, ended, self.now), false)
    }

    fn drive(&mut self, stored: &Stored, mut cascade: Cascade) -> Result<()> {
        let mut seqs = HashMap::new();
        while let Some(wanted) = cascade.wanted() {
            match wanted {
                Wanted::Tasks(ids) => {
                    let mut tasks = Vec::with_capacity(ids.len());
                    for id in ids {
                        if let Some(found) = self.task(id)? {
                            seqs.insert(id, found.0);
                            tasks.push(found.1.clone());
                        }
                    }
                    cascade.give(tasks);
                }
                Wanted::Unsettled(range) => {
                    let found = self.steps(range, true)?;
                    seqs.extend(found.iter().map(|(seq, task)| (task.id, *seq)));
                    cascade.give(found.into_iter().map(|(_, task)| task).collect());
                }
                Wanted::Results(ids) => {
                    let json = |row: &Row<'_>| Ok(row.get_ref(0)?.as_str_or_null()?.map(Json::stored));
                    let mut results = Vec::with_capacity(ids.len());
                    for id in ids {
                        let result = self.read(|sql| &mut sql.result_by_id, [id.as_bytes()], json)?;
                        results.push(result.flatten());
                    }
                    cascade.give_results(&results);
                }
            }
        }
        self.write_cascaded(stored, cascade.done(), &seqs)
    }

    fn write_cascaded(&mut self, stored: &Stored, done: Cascaded, seqs: &HashMap<TaskId, i64>) -> Result<()> {
        self.ledger.tally.note(&done.namespace, &done.activity, self.now);
        let mut lanes = BTreeMap::new();
        for (before, change) in &done.tasks {
            let seq = match seqs.get(&change.id) {
                Some(seq) => *seq,
                None => match self.task(change.id)? {
                    Some(found) => found.0,
                    None => continue,
                },
            };
            if change.entries.is_empty() {
                let waits = change.after.waits;
                self.write_with(|sql| &mut sql.set_waits, |statement| row::set_waits(statement, seq, waits))?;
            } else {
                self.write_change(seq, before, change, false)?;
                if change.moves_lane(before) {
                    lanes.insert(before.spec.lane_key(), &before.spec);
                }
            }
        }
        for spec in lanes.into_values() {
            self.give_slots(spec)?;
        }
        if let Some(change) = done.workflow {
            let is_news = change.after.state.is_settled() && !stored.workflow.state.is_settled();
            self.ledger.rings.settled += u64::from(is_news);
            self.ledger.tally.count(&stored.workflow, -1);
            self.ledger.tally.count(&change.after, 1);
            let after = Stored { workflow: change.after, ..*stored };
            self.write_with(|sql| &mut sql.put_workflow, |statement| workflow_row::put(statement, &after))?;
            if after.workflow.state != stored.workflow.state {
                self.tell_workflow(&after.workflow)?;
            }
            for entry in &change.entries {
                self.write_entry(after.seq, entry)?;
            }
        }
        for step in done.abandoned {
            if let Some(child) = self.child(step)?
                && !child.workflow.state.is_final()
            {
                let by = By { note: Some("the step that it is was settled".into()), ..By::default() };
                self.steer_one(child.workflow.id, &Steering::Cancel, &by)?;
            }
        }
        if let Some((step, ended)) = done.ended {
            self.conclude(step, &ended)?;
        }
        Ok(())
    }

    /// The tasks of a workflow, or of a part of it; only those that are not final, if that is all that is
    /// wanted.
    pub(super) fn steps(
        &mut self,
        range: RangeInclusive<TaskId>,
        unsettled: bool,
    ) -> Result<Vec<(i64, Task)>> {
        let values = [range.start().as_bytes(), range.end().as_bytes()];
        let statement = if unsettled { &mut self.sql.unsettled_between } else { &mut self.sql.steps_between };
        let rows = statement.query_map(values, row::task).map_err(failure)?;
        rows.collect::<rusqlite::Result<_>>().map_err(failure)
    }

    /// Puts right what is not as it should be about a workflow. Says how much that was.
    pub(super) fn repair_workflow(&mut self, id: WorkflowId) -> Result<u64> {
        let Some(stored) = self.workflow(id)? else { return Ok(0) };
        let tasks = self.steps(id.tasks(), false)?;
        let mut cascade = Cascade::new(self.blueprint_of(&stored)?, stored.workflow.clone(), self.now);
        let repaired = cascade.recount(tasks.into_iter().map(|(_, task)| task).collect());
        if repaired > 0 {
            self.drive(&stored, cascade)?;
            self.follow_up()?;
        }
        Ok(repaired)
    }

    /// Removes workflows that retention does not keep, at most `limit`, with all that belongs to them.
    pub(super) fn prune_workflows(&mut self, retention: &Retention, limit: usize) -> Result<usize> {
        self.write(|sql| &mut sql.forget_activity, [self.now.minus(limits::ACTIVITY).as_micros()])?;
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut old: Vec<(i64, i64, WorkflowId)> = Vec::new();
        for (state, before) in retention.workflow_cutoffs(self.now) {
            let values = params![state.word(), before.as_micros(), most];
            let decode = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, workflow_row::workflow_id(row, 2)?));
            let rows = self.sql.expired_workflows.query_map(values, decode).map_err(failure)?;
            for row in rows {
                old.push(row.map_err(failure)?);
            }
        }
        old.sort_unstable();
        old.truncate(limit);
        for (_, seq, id) in &old {
            self.delete_workflow(*seq, *id)?;
        }
        Ok(old.len())
    }

    fn delete_workflow(&mut self, seq: i64, id: WorkflowId) -> Result<()> {
        let Some(stored) = self.workflow(id)? else { return Ok(()) };
        let range = id.tasks();
        let values = [range.start().as_bytes(), range.end().as_bytes()];
        let decode = |row: &Row<'_>| {
            let (namespace, queue, kind) = (row::name(row, 0)?, row::name(row, 1)?, row::name(row, 2)?);
            Ok((
                Sort { namespace, queue, kind, is_step: true, state: row::state(row, 3)? },
                -row.get::<_, i64>(4)?,
            ))
        };
        let counts = self.sql.count_steps.query_map(values, decode).map_err(failure)?;
        let counts: Vec<(Sort, i64)> = counts.collect::<rusqlite::Result<_>>().map_err(failure)?;
        self.ledger.count_all(counts);
        self.ledger.tally.count(&stored.workflow, -1);
        self.write(|sql| &mut sql.delete_steps, values)?;
        self.write(|sql| &mut sql.delete_workflow, [seq])?;
        if Workflow::is_own_version(&stored.workflow.version) {
            self.write(|sql| &mut sql.delete_definition, [stored.definition])?;
            self.blueprints.forget(stored.definition);
        }
        Ok(())
    }
}
