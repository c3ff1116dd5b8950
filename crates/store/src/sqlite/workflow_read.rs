//! Definitions and workflows: what is read about them.

use std::sync::Arc;

use rusqlite::{Row, ToSql, params};
use windlass_core::{
    Activity, Blueprint, Cascade, Execution, Executions, Json, Name, Place, Task, TaskId, Timestamp,
    Workflow, WorkflowId,
};

use super::read::Snapshot;
use super::row;
use super::workflow_row::{self, Stored};
use crate::request::{Cursor, Filter, Listing, Page};
use crate::workflow::{
    Blueprints, DefinitionLine, ReadyWorkflow, StoredDefinition, WorkflowCount, WorkflowFilter,
    WorkflowListing, WorkflowRecord,
};

impl Snapshot<'_> {
    fn blueprint(
        &self,
        blueprints: &Blueprints,
        seq: i64,
        content: Option<String>,
    ) -> rusqlite::Result<Arc<Blueprint>> {
        if let Some(known) = blueprints.get(seq) {
            return Ok(known);
        }
        let content = match content {
            Some(content) => content,
            None => self
                .one(include_str!("sql/definition_content.sql"), [seq], |row| row.get(0))?
                .unwrap_or_default(),
        };
        let blueprint = Arc::new(Blueprint::stored(&content).map_err(workflow_row::unreadable)?);
        blueprints.put(seq, &blueprint);
        Ok(blueprint)
    }

    pub(super) fn definition(
        &self,
        blueprints: &Blueprints,
        namespace: Name,
        name: &Name,
        version: Option<&str>,
    ) -> rusqlite::Result<Option<StoredDefinition>> {
        if version.is_some_and(Workflow::is_own_version) {
            return Ok(None);
        }
        let found = match version {
            Some(version) => self.one(
                include_str!("sql/definition_by_version.sql"),
                [&*namespace, name, version],
                workflow_row::definition,
            )?,
            None => self.one(
                include_str!("sql/newest_definition.sql"),
                [&*namespace, name],
                workflow_row::definition,
            )?,
        };
        let Some((seq, version, content, created_at)) = found else { return Ok(None) };
        let blueprint = self.blueprint(blueprints, seq, Some(content))?;
        Ok(Some(StoredDefinition { namespace, version, blueprint, created_at }))
    }

    pub(super) fn definitions(
        &self,
        namespace: &Name,
        name: Option<&Name>,
    ) -> rusqlite::Result<Vec<DefinitionLine>> {
        let decode = workflow_row::definition_line;
        match name {
            Some(name) => {
                self.all(include_str!("sql/definition_versions.sql"), [&**namespace, &**name], decode)
            }
            None => self.all(include_str!("sql/definitions.sql"), [&**namespace], decode),
        }
    }

    pub(super) fn workflow_counts(&self) -> rusqlite::Result<Vec<WorkflowCount>> {
        let mut counts = self.all(include_str!("sql/workflow_counts.sql"), [], |row| {
            Ok(WorkflowCount {
                namespace: row::name(row, 0)?,
                name: row::name(row, 1)?,
                state: row::parse(row, 2)?,
                workflows: row::unsigned(row, 3)?,
            })
        })?;
        counts.sort();
        Ok(counts)
    }

    pub(super) fn ready_workflows(
        &self,
        is_wanted: &dyn Fn(&Workflow) -> bool,
        limit: usize,
        now: Timestamp,
    ) -> rusqlite::Result<Vec<ReadyWorkflow>> {
        let mut statement = self.statement(include_str!("sql/workflows_in_process.sql"))?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while found.len() < limit
            && let Some(row) = rows.next()?
        {
            let workflow = workflow_row::stored(row)?.workflow;
            if workflow.paused || !is_wanted(&workflow) {
                continue;
            }
            let range = workflow.id.tasks();
            let due = now.as_micros();
            let values = params![range.start().as_bytes(), range.end().as_bytes(), due];
            let count = |row: &Row<'_>| row::unsigned(row, 0);
            let ready = self.one(include_str!("sql/ready_steps.sql"), values, count)?.unwrap_or(0);
            if ready > 0 {
                found.push(ReadyWorkflow { workflow, ready });
            }
        }
        Ok(found)
    }

    pub(super) fn executions(
        &self,
        blueprints: &Blueprints,
        wanted: &Executions,
    ) -> rusqlite::Result<Vec<Execution>> {
        let mut gathering = wanted.clone().gather();
        let mut statement = self.statement(include_str!("sql/workflows_since.sql"))?;
        let mut rows = statement.query([wanted.since.as_micros()])?;
        while let Some(row) = rows.next()? {
            let Stored { workflow, definition, .. } = workflow_row::stored(row)?;
            if !wanted.wants(&workflow) {
                continue;
            }
            if !wanted.of_steps {
                gathering.note_workflow(&workflow);
                continue;
            }
            let blueprint = self.blueprint(blueprints, definition, None)?;
            let range = workflow.id.tasks();
            let values = [range.start().as_bytes(), range.end().as_bytes()];
            for (_, task) in self.all(include_str!("sql/steps_between.sql"), values, row::task)? {
                let step = blueprint.step(Place::of(task.id).step);
                gathering.note_step(&workflow, step.map_or("", |step| &step.name), &task);
            }
        }
        Ok(gathering.done())
    }

    pub(super) fn activity(&self, since: Timestamp, namespace: Option<&Name>) -> rusqlite::Result<Activity> {
        let minute = Activity::minute(since).as_micros();
        let sum = self.one(
            include_str!("sql/activity.sql"),
            params![minute, namespace.map(|name| &**name)],
            |row| {
                let mut sums = [0; 7];
                for (column, sum) in sums.iter_mut().enumerate() {
                    *sum = row::unsigned(row, column)?;
                }
                Ok(Activity::from(sums))
            },
        )?;
        Ok(sum.unwrap_or_default())
    }

    pub(super) fn workflow(
        &self,
        blueprints: &Blueprints,
        id: WorkflowId,
    ) -> rusqlite::Result<Option<WorkflowRecord>> {
        let sql = include_str!("sql/workflow_by_id.sql");
        let found = self.one(sql, [id.as_bytes()], workflow_row::stored)?;
        let Some(Stored { seq, definition, workflow }) = found else { return Ok(None) };
        let input = self
            .one(include_str!("sql/input.sql"), [seq], |row| Ok(Json::stored(row.get_ref(0)?.as_str()?)))?;
        let mut from = None;
        let history = self.all(include_str!("sql/workflow_history.sql"), [seq], |row| {
            let entry = workflow_row::entry(row, from)?;
            from = Some(entry.to);
            Ok(entry)
        })?;
        let blueprint = self.blueprint(blueprints, definition, None)?;
        Ok(Some(WorkflowRecord { workflow, blueprint, input: input.unwrap_or_default(), history }))
    }

    pub(super) fn find_workflow(
        &self,
        namespace: &Name,
        name: &Name,
        key: &str,
    ) -> rusqlite::Result<Option<WorkflowId>> {
        let sql = include_str!("sql/workflow_by_key.sql");
        let found = self.one(sql, [&**namespace, &**name, key], workflow_row::stored)?;
        Ok(found.map(|stored| stored.workflow.id))
    }

    /// A page of workflows.
    pub(super) fn workflows(&self, filter: &WorkflowFilter, page: Page) -> rusqlite::Result<WorkflowListing> {
        let start = if page.oldest_first { 0 } else { i64::MAX };
        let after = page.after.map_or(start, |Cursor(place)| i64::try_from(place).unwrap_or(start));
        let parent = filter.parent.as_ref().map(TaskId::as_bytes);
        let mut values: Vec<&dyn ToSql> = vec![&after];
        values.extend(parent.iter().map(|parent| parent as &dyn ToSql));
        let mut statement = self.statement(match (parent.is_some(), page.oldest_first) {
            (false, true) => include_str!("sql/workflows_oldest.sql"),
            (false, false) => include_str!("sql/workflows_newest.sql"),
            (true, true) => include_str!("sql/workflows_of_step_oldest.sql"),
            (true, false) => include_str!("sql/workflows_of_step_newest.sql"),
        })?;
        let rows = statement.query_map(&*values, |row| {
            let Stored { seq, workflow, .. } = workflow_row::stored(row)?;
            Ok((u64::try_from(seq).unwrap_or(0), workflow))
        })?;
        page.pick(rows, |workflow| filter.wants(workflow))
            .map(|(workflows, next)| WorkflowListing { workflows, next })
    }

    /// A page of the tasks of a workflow, in the order of their places.
    pub(super) fn steps(
        &self,
        workflow: WorkflowId,
        filter: &Filter,
        page: Page,
    ) -> rusqlite::Result<Listing> {
        let (range, after) = (workflow.tasks(), page.after.map(|Cursor(number)| workflow.at(number)));
        let (first, last) = (*range.start(), *range.end());
        let (sql, bounds) = match page.oldest_first {
            true => (include_str!("sql/list_steps_oldest.sql"), [after.unwrap_or(first), last]),
            false => (include_str!("sql/list_steps_newest.sql"), [after.unwrap_or(last), first]),
        };
        let mut statement = self.statement(sql)?;
        let rows = statement.query_map(bounds.each_ref().map(TaskId::as_bytes), |row| {
            let (_, task) = row::task(row)?;
            Ok((Place::of(task.id).number(), task))
        })?;
        let (tasks, next) = page.pick(rows, |task: &Task| filter.wants(task))?;
        Ok(Listing { tasks, next })
    }

    /// The first workflow after `after` that is not over, and how much about it is not as it should be.
    pub(super) fn look_at_next(
        &self,
        blueprints: &Blueprints,
        after: Option<WorkflowId>,
        now: Timestamp,
    ) -> rusqlite::Result<Option<(WorkflowId, u64)>> {
        let after = after.map_or([0; 16], |after| *after.as_bytes());
        let next = self.one(include_str!("sql/next_open_workflow.sql"), [after], workflow_row::stored)?;
        let Some(Stored { definition, workflow, .. }) = next else { return Ok(None) };
        let (id, range) = (workflow.id, workflow.id.tasks());
        let bounds = [range.start().as_bytes(), range.end().as_bytes()];
        let tasks = self.all(include_str!("sql/steps_between.sql"), bounds, |row| Ok(row::task(row)?.1))?;
        let blueprint = self.blueprint(blueprints, definition, None)?;
        Ok(Some((id, Cascade::new(blueprint, workflow, now).recount(tasks))))
    }

    pub(super) fn results(&self, tasks: &[TaskId]) -> rusqlite::Result<Vec<Option<Json>>> {
        let json = |row: &Row<'_>| Ok(row.get_ref(0)?.as_str_or_null()?.map(Json::stored));
        let result = |task: &TaskId| self.one(include_str!("sql/result_by_id.sql"), [task.as_bytes()], json);
        tasks.iter().map(|task| Ok(result(task)?.flatten())).collect()
    }
}
