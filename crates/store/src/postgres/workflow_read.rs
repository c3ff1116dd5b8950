//! Definitions and workflows: what is read about them.

use std::sync::Arc;

use windlass_core::{
    Activity, Blueprint, Cascade, Execution, Executions, Json, Name, Place, Task, TaskId, Timestamp,
    Workflow, WorkflowId, limits,
};

use super::Inner;
use super::failure::Failure;
use super::read::{all, first};
use super::row::{self, Foreign, signed, uuid};
use super::sql::WORKFLOW;
use super::tx::{Which, args};
use super::workflow_row::{self, Stored, wide};
use super::workflows::range_args;
use crate::error::Result;
use crate::request::{Cursor, Filter, Listing, Page};
use crate::workflow::{
    DefinitionLine, ReadyWorkflow, StoredDefinition, WorkflowCount, WorkflowFilter, WorkflowListing,
    WorkflowRecord,
};

impl Inner {
    /// A definition by its number, from what was read before or from its content.
    pub(super) fn blueprint(&self, seq: i64, content: &str) -> Result<Arc<Blueprint>, String> {
        if let Some(known) = self.blueprints.get(seq) {
            return Ok(known);
        }
        let blueprint = Arc::new(Blueprint::stored(content)?);
        self.blueprints.put(seq, &blueprint);
        Ok(blueprint)
    }

    pub(super) async fn definition(
        self: &Arc<Self>,
        namespace: Name,
        name: Name,
        version: Option<String>,
    ) -> Result<Option<StoredDefinition>> {
        if version.as_deref().is_some_and(Workflow::is_own_version) {
            return Ok(None);
        }
        let values =
            || args![namespace.to_string() => TEXT, name.to_string() => TEXT, version.clone() => TEXT];
        let answer = self.ask(|sql| &sql.definition, values).await?;
        first(&answer, |row| {
            Ok(StoredDefinition {
                namespace: namespace.clone(),
                version: row::get(row, 1)?,
                blueprint: self.blueprint(row::get(row, 0)?, row::get(row, 2)?).map_err(Foreign)?,
                created_at: row::time(row, 3)?,
            })
        })
    }

    pub(super) async fn definitions(
        self: &Arc<Self>,
        namespace: Name,
        name: Option<Name>,
    ) -> Result<Vec<DefinitionLine>> {
        let answer = match name {
            Some(name) => {
                let values = || args![namespace.to_string() => TEXT, name.to_string() => TEXT, "" => TEXT];
                self.ask(|sql| &sql.definition_versions, values).await?
            }
            None => self.ask(|sql| &sql.definitions, || args![namespace.to_string() => TEXT]).await?,
        };
        all(&answer, workflow_row::definition_line)
    }

    pub(super) async fn workflow_counts(self: &Arc<Self>) -> Result<Vec<WorkflowCount>> {
        let answer = self.ask(|sql| &sql.workflow_counts, Vec::new).await?;
        let mut counts = all(&answer, |row| {
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

    pub(super) async fn ready_workflows(
        self: &Arc<Self>,
        namespace: Option<Name>,
        name: Option<Name>,
        limit: usize,
    ) -> Result<Vec<ReadyWorkflow>> {
        let values = || {
            args![
                signed(limit) => INT8,
                self.clock.given() => TIMESTAMPTZ,
                namespace.as_ref().map(ToString::to_string) => TEXT,
                name.as_ref().map(ToString::to_string) => TEXT,
            ]
        };
        let answer = self.ask(|sql| &sql.ready_workflows, values).await?;
        all(&answer, |row| {
            let workflow = workflow_row::stored(row)?.workflow;
            Ok(ReadyWorkflow { workflow, ready: row::unsigned(row, workflow_row::AFTER_WORKFLOW)? })
        })
    }

    pub(super) async fn executions(self: &Arc<Self>, wanted: Executions) -> Result<Vec<Execution>> {
        let which: Which = match (wanted.of_steps, wanted.together) {
            (true, None) => |sql| &sql.slowest_steps,
            (true, Some(_)) => |sql| &sql.steps_together,
            (false, None) => |sql| &sql.slowest_workflows,
            (false, Some(_)) => |sql| &sql.workflows_together,
        };
        let values = || {
            let mut values = args![
                row::moment(wanted.since) => TIMESTAMPTZ,
                wanted.namespace.as_ref().map(ToString::to_string) => TEXT,
                wanted.name.as_ref().map(ToString::to_string) => TEXT,
                wanted.version.clone() => TEXT,
                signed(wanted.limit) => INT8,
            ];
            values.extend(wanted.together.iter().flat_map(|least| args![signed(*least) => INT8]));
            values
        };
        all(&self.ask(which, values).await?, workflow_row::execution)
    }

    pub(super) async fn activity(
        self: &Arc<Self>,
        since: Timestamp,
        namespace: Option<Name>,
    ) -> Result<Activity> {
        let minute = row::moment(Activity::minute(since));
        let values = || args![minute => TIMESTAMPTZ, namespace.as_ref().map(ToString::to_string) => TEXT];
        let answer = self.ask(|sql| &sql.activity, values).await?;
        let sum = first(&answer, |row| {
            let mut sums = [0; 7];
            for (column, sum) in sums.iter_mut().enumerate() {
                *sum = row::unsigned(row, column)?;
            }
            Ok(Activity::from(sums))
        })?;
        Ok(sum.unwrap_or_default())
    }

    pub(super) async fn workflow(self: &Arc<Self>, id: WorkflowId) -> Result<Option<WorkflowRecord>> {
        let answers = self
            .read(|| {
                vec![
                    (|sql| &sql.workflow, args![wide(id) => UUID]),
                    (|sql| &sql.workflow_input, args![wide(id) => UUID]),
                    (|sql| &sql.workflow_history, args![wide(id) => UUID]),
                ]
            })
            .await?;
        let [found, input, history] = &answers[..] else { return Ok(None) };
        let Some(Stored { definition, workflow, .. }) = first(found, workflow_row::stored)? else {
            return Ok(None);
        };
        let blueprint = self.blueprint_of(definition).await?;
        let input = first(input, |row| row::json(row, 0))?.flatten().unwrap_or_default();
        let mut from = None;
        let mut entries = Vec::with_capacity(history.rows.len());
        for row in &history.rows {
            let entry = workflow_row::entry(row, from).map_err(|error| Failure::from(error).error())?;
            from = Some(entry.to);
            entries.push(entry);
        }
        Ok(Some(WorkflowRecord { workflow, blueprint, input, history: entries }))
    }

    pub(super) async fn find_workflow(
        self: &Arc<Self>,
        namespace: Name,
        name: Name,
        key: String,
    ) -> Result<Option<WorkflowId>> {
        let values = || args![namespace.to_string() => TEXT, name.to_string() => TEXT, key.clone() => TEXT];
        let answer = self.ask(|sql| &sql.workflow_by_key, values).await?;
        Ok(first(&answer, workflow_row::stored)?.map(|stored| stored.workflow.id))
    }

    /// A page of workflows. Reads as many rows as a page has, until enough of them are wanted.
    pub(super) async fn workflows(
        self: &Arc<Self>,
        filter: WorkflowFilter,
        page: Page,
    ) -> Result<WorkflowListing> {
        let (start, sign, order) = if page.oldest_first { (0, ">", "ASC") } else { (i64::MAX, "<", "DESC") };
        let after = page.after.map_or(start, |Cursor(place)| signed(place));
        let mut values = args![after => INT8, signed(limits::PAGE_SCAN + 1) => INT8];
        let of_step = if filter.parent.is_some() { "AND w.parent = $3" } else { "" };
        values.extend(filter.parent.into_iter().flat_map(|parent| args![uuid(parent) => UUID]));
        let text = format!(
            "SELECT {WORKFLOW} FROM {schema}.workflows w WHERE w.seq {sign} $1 {of_step} ORDER BY w.seq {order} LIMIT $2",
            schema = self.schema
        );
        let answer = self.read_text(&text, values).await?;
        let rows = answer.rows.iter().map(|row| {
            let Stored { seq, workflow, .. } = workflow_row::stored(row)?;
            Ok((u64::try_from(seq).unwrap_or(0), workflow))
        });
        let picked = page.pick(rows, |workflow| filter.wants(workflow));
        let (workflows, next) = picked.map_err(|error: Foreign| Failure::from(error).error())?;
        Ok(WorkflowListing { workflows, next })
    }

    /// A page of the tasks of a workflow, in the order of their places.
    pub(super) async fn steps(
        self: &Arc<Self>,
        workflow: WorkflowId,
        filter: &Filter,
        page: Page,
    ) -> Result<Listing> {
        let (range, after) = (workflow.tasks(), page.after.map(|Cursor(number)| workflow.at(number)));
        let (first, last) = (*range.start(), *range.end());
        let (bounds, condition, order) = match page.oldest_first {
            true => ([after.unwrap_or(first), last], "r.id > $1 AND r.id <= $2", "ASC"),
            false => ([after.unwrap_or(last), first], "r.id < $1 AND r.id >= $2", "DESC"),
        };
        let [one, other] = bounds.map(uuid);
        let text = super::sql::steps(
            &format!("{condition} AND r.is_step ORDER BY r.id {order} LIMIT $3"),
            &self.schema,
        );
        let values = args![one => UUID, other => UUID, signed(limits::PAGE_SCAN + 1) => INT8];
        let answer = self.read_text(&text, values).await?;
        let rows = answer.rows.iter().map(|row| {
            let (_, task) = row::task(row)?;
            Ok((Place::of(task.id).number(), task))
        });
        let picked = page.pick(rows, |task: &Task| filter.wants(task));
        let (tasks, next) = picked.map_err(|error: Foreign| Failure::from(error).error())?;
        Ok(Listing { tasks, next })
    }

    /// The first workflow after `after` that is not over, and how much about it is not as it should be.
    pub(super) async fn look_at_next(
        self: &Arc<Self>,
        after: Option<WorkflowId>,
    ) -> Result<Option<(WorkflowId, u64)>> {
        let after = after.map_or(uuid::Uuid::nil(), wide);
        let next = self.ask(|sql| &sql.next_open_workflow, || args![after => UUID]).await?;
        let Some(id) = first(&next, |row| workflow_row::workflow_id(row, 0))? else { return Ok(None) };
        let answers = self
            .read(|| {
                vec![
                    (|sql| &sql.workflow, args![wide(id) => UUID]),
                    (|sql| &sql.steps, range_args(&id.tasks())),
                ]
            })
            .await?;
        let [found, tasks] = &answers[..] else { return Ok(None) };
        let Some(Stored { definition, workflow, .. }) = first(found, workflow_row::stored)? else {
            return Ok(Some((id, 0)));
        };
        let tasks = all(tasks, |row| Ok(row::task(row)?.1))?;
        let mut cascade = Cascade::new(self.blueprint_of(definition).await?, workflow, self.clock.now());
        Ok(Some((id, cascade.recount(tasks))))
    }

    /// The definition that a workflow follows.
    async fn blueprint_of(self: &Arc<Self>, definition: i64) -> Result<Arc<Blueprint>> {
        if let Some(known) = self.blueprints.get(definition) {
            return Ok(known);
        }
        let content = self.ask(|sql| &sql.definition_content, || args![definition => INT8]).await?;
        let read = |row: &_| self.blueprint(definition, row::get(row, 0)?).map_err(Foreign);
        let gone = || Failure::from(Foreign("its definition is gone".into())).error();
        first(&content, read)?.ok_or_else(gone)
    }

    pub(super) async fn results(self: &Arc<Self>, tasks: Vec<TaskId>) -> Result<Vec<Option<Json>>> {
        let ids: Vec<_> = tasks.into_iter().map(uuid).collect();
        let answer = self.ask(|sql| &sql.results, || args![ids.clone() => UUID_ARRAY]).await?;
        all(&answer, |row| row::json(row, 0))
    }
}
