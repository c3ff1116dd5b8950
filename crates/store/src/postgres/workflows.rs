//! Definitions and workflows: what is written about them.

use std::ops::RangeInclusive;
use std::sync::Arc;

use windlass_core::{
    Admission, Before, Blueprint, By, Cascade, Cascaded, Definition, Ended, HeldLane, Json, LanesAbove, Name,
    NewWorkflow, OnConflict, Rejected, Retention, Source, Steering, Task, TaskId, Timestamp, Token, Wanted,
    Within, Workflow, WorkflowId, conclude, limits, nest,
};

use super::Inner;
use super::board::Board;
use super::failure::Failure;
use super::row::{self, Foreign, moment, uuid};
use super::tx::{Args, Tx, args};
use super::workflow_row::{self, Locked, Stored, wide};
use crate::error::Result;
use crate::request::{Look, Reconciled, Rings};
use crate::workflow::{Defined, Started, check_definition, next_version};

/// A definition's number, what it says, and its version.
type Found = (i64, Arc<Blueprint>, String);

pub(super) fn range_args(range: &RangeInclusive<TaskId>) -> Args {
    args![uuid(*range.start()) => UUID, uuid(*range.end()) => UUID]
}

impl Inner {
    pub(super) async fn define(self: Arc<Self>, namespace: Name, definition: Definition) -> Result<Defined> {
        let (name, wanted) = (definition.name.clone(), definition.version.clone());
        let (blueprint, content) = check_definition(definition)?;
        self.transaction(async |tx: &mut Tx| {
            let known =
                args![namespace.to_string() => TEXT, name.to_string() => TEXT, content.clone() => TEXT];
            let answer = tx.ask(|sql| &sql.definition_versions, known).await?;
            let read = |row| Ok((row::get::<String>(row, 1)?, row::get::<bool>(row, 4)?));
            let known = answer.rows.iter().map(read).collect::<Result<Vec<_>, Foreign>>()?;
            let version = match &wanted {
                Some(version) => match known.iter().find(|(known, _)| known == version) {
                    Some((_, true)) => return Ok(Defined { version: version.clone(), created: false }),
                    Some(_) => {
                        let (name, version) = (name.to_string(), version.clone());
                        return Err(Rejected::DefinitionConflict { name, version }.into());
                    }
                    None => version.clone(),
                },
                None => match known.iter().rev().find(|(_, is_same)| *is_same) {
                    Some((version, _)) => return Ok(Defined { version: version.clone(), created: false }),
                    None => next_version(known.iter().map(|(version, _)| &**version)),
                },
            };
            tx.insert_definition(&namespace, &version, &content, &blueprint).await?;
            tx.commit().await?;
            Ok(Defined { version, created: true })
        })
        .await
    }

    pub(super) async fn start(self: Arc<Self>, new: NewWorkflow) -> Result<Started> {
        let (started, rings) = self.transaction(async |tx: &mut Tx| tx.start(&new).await).await?;
        self.ring(rings);
        Ok(started)
    }

    pub(super) async fn steer(
        self: Arc<Self>,
        id: WorkflowId,
        steering: Steering,
        by: By,
    ) -> Result<Workflow> {
        let (workflow, rings) = self
            .transaction(async |tx: &mut Tx| {
                let mut board = Board::default();
                tx.lock_workflows(&mut board, &[id]).await?;
                let now = tx.now().await?;
                tx.steer(&mut board, id, &steering, &by, now).await?;
                tx.follow_up(&mut board, now).await?;
                let workflow = board.workflows.get(&id).map(|locked| locked.stored.workflow.clone());
                let workflow = workflow.ok_or(Rejected::UnknownWorkflow { workflow: id })?;
                Ok((workflow, tx.commit_board(board).await?))
            })
            .await?;
        self.ring(rings);
        Ok(workflow)
    }

    /// Looks at the first workflow after `after` that is not over. Its row is locked only if there is
    /// something to do.
    pub(super) async fn reconcile_workflow(self: Arc<Self>, after: Option<WorkflowId>) -> Result<Reconciled> {
        let Some((id, wrong)) = self.look_at_next(after).await? else { return Ok(Reconciled::default()) };
        let repaired = if wrong > 0 { self.repair_workflow(id).await? } else { 0 };
        Ok(Reconciled { repaired, next: Some(Look::next_workflow(id)) })
    }

    /// Puts right what is not as it should be about a workflow. Says how much that was.
    async fn repair_workflow(self: &Arc<Self>, id: WorkflowId) -> Result<u64> {
        let (repaired, rings) = self
            .transaction(async |tx: &mut Tx| {
                let mut board = Board::default();
                tx.lock_workflows(&mut board, &[id]).await?;
                let now = tx.now().await?;
                let Some(stored) = board.workflows.get(&id).map(|locked| locked.stored.clone()) else {
                    return Ok((0, Rings::default()));
                };
                let rows = tx.ask(|sql| &sql.steps, range_args(&id.tasks())).await?.rows;
                let tasks = rows.iter().map(|row| Ok(row::task(row)?.1)).collect::<Result<_, Foreign>>()?;
                let mut cascade = Cascade::new(tx.blueprint_of(&stored).await?, stored.workflow, now);
                let repaired = cascade.recount(tasks);
                tx.load_between(&mut board, &id.tasks()).await?;
                tx.drive(&mut board, id, cascade, now).await?;
                tx.follow_up(&mut board, now).await?;
                Ok((repaired, tx.commit_board(board).await?))
            })
            .await?;
        self.ring(rings);
        Ok(repaired)
    }
}

impl Tx {
    async fn insert_definition(
        &mut self,
        namespace: &Name,
        version: &str,
        content: &str,
        blueprint: &Blueprint,
    ) -> Result<i64, Failure> {
        let now = self.now().await?;
        let mut values = args![
            namespace.to_string() => TEXT,
            blueprint.definition().name.to_string() => TEXT,
            version.to_owned() => TEXT,
            content.to_owned() => TEXT,
            i64::from(blueprint.len()) => INT8,
            moment(now) => TIMESTAMPTZ,
        ];
        values.extend(workflow_row::graph_args(blueprint));
        // Somebody else was first: look again.
        let answer = self.ask(|sql| &sql.insert_definition, values).await?;
        Ok(row::get(answer.rows.first().ok_or(Failure::Moved)?, 0)?)
    }

    /// A definition; the newest of that name if no version is asked for.
    async fn definition(
        &mut self,
        namespace: &Name,
        name: &Name,
        version: Option<&str>,
    ) -> Result<Option<Found>, Failure> {
        if version.is_some_and(Workflow::is_own_version) {
            return Ok(None);
        }
        let values = args![
            namespace.to_string() => TEXT,
            name.to_string() => TEXT,
            version.map(ToOwned::to_owned) => TEXT,
        ];
        let answer = self.ask(|sql| &sql.definition, values).await?;
        let Some(row) = answer.rows.first() else { return Ok(None) };
        let seq = row::get(row, 0)?;
        let blueprint = self.inner.blueprint(seq, row::get(row, 2)?).map_err(Foreign)?;
        Ok(Some((seq, blueprint, row::get(row, 1)?)))
    }

    /// The definition that a workflow follows.
    async fn blueprint_of(&mut self, stored: &Stored) -> Result<Arc<Blueprint>, Failure> {
        if let Some(known) = self.inner.blueprints.get(stored.definition) {
            return Ok(known);
        }
        let answer = self.ask(|sql| &sql.definition_content, args![stored.definition => INT8]).await?;
        let content = answer.rows.first().map_or(Ok(""), |row| row::get(row, 0))?;
        Ok(self.inner.blueprint(stored.definition, content).map_err(Foreign)?)
    }

    /// Locks workflows, in the order of their ids, and puts them on the board. Those that are not there are
    /// left out.
    pub(super) async fn lock_workflows(
        &mut self,
        board: &mut Board,
        ids: &[WorkflowId],
    ) -> Result<(), Failure> {
        let missing: Vec<_> =
            ids.iter().filter(|id| !board.workflows.contains_key(id)).map(|id| wide(*id)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        for row in self.ask(|sql| &sql.lock_workflows, args![missing => UUID_ARRAY]).await?.rows {
            let stored = workflow_row::stored(&row)?;
            board.workflows.insert(stored.workflow.id, Locked::new(stored));
        }
        Ok(())
    }

    /// The workflow that a step is.
    async fn child(&mut self, step: TaskId) -> Result<Option<WorkflowId>, Failure> {
        let answer = self.ask(|sql| &sql.workflow_of_step, args![uuid(step) => UUID]).await?;
        Ok(answer.rows.first().map(|row| workflow_row::workflow_id(row, 0)).transpose()?)
    }

    async fn start(&mut self, new: &NewWorkflow) -> Result<(Started, Rings), Failure> {
        let mut board = Board::default();
        let (blueprint, version, definition) = match &new.source {
            Source::Named { name, version } => {
                let found = self.definition(&new.namespace, name, version.as_deref()).await?;
                let unknown =
                    Rejected::UnknownDefinition { name: name.to_string(), version: version.clone() };
                let (seq, blueprint, version) = found.ok_or(unknown)?;
                (blueprint, version, Ok(seq))
            }
            Source::AdHoc(definition) => {
                let (blueprint, content) = check_definition((**definition).clone())?;
                (blueprint, Workflow::own_version(new.id), Err(content))
            }
        };
        if let Some(key) = &new.key {
            let name = blueprint.definition().name.to_string();
            let values = args![new.namespace.to_string() => TEXT, name => TEXT, key.clone() => TEXT];
            if let Some(row) = self.ask(|sql| &sql.workflow_by_key, values).await?.rows.first() {
                let Workflow { id, state, .. } = workflow_row::stored(row)?.workflow;
                return match new.on_conflict {
                    OnConflict::Return => Ok((Started { id, state, created: false }, Rings::default())),
                    OnConflict::Reject => {
                        Err(Rejected::WorkflowKeyConflict { key: key.clone(), existing: id }.into())
                    }
                };
            }
        }
        let within = match &new.parent {
            Some(token) => match self.nest(&mut board, token, new.id).await? {
                Ok(within) => within,
                Err(started) => return Ok((started, Rings::default())),
            },
            None => Within::default(),
        };
        if blueprint.has_lanes() {
            let held = self.lanes_held(new.parent.as_ref().map(|token| token.task)).await?;
            new.check_lanes(&blueprint, &held)?;
        }
        let taken = self.ask(|sql| &sql.first_between, range_args(&new.id.reserved())).await?;
        let known = self.ask(|sql| &sql.workflow, args![wide(new.id) => UUID]).await?;
        if !taken.rows.is_empty() || !known.rows.is_empty() {
            return Err(Rejected::WorkflowIdConflict { workflow: new.id }.into());
        }
        let definition = match definition {
            Ok(seq) => seq,
            Err(content) => self.insert_definition(&new.namespace, &version, &content, &blueprint).await?,
        };
        let now = self.now().await?;
        let admission = new.clone().admit(&blueprint, version, within, now);
        let started = self.admit(&mut board, admission, definition, now).await?;
        self.follow_up(&mut board, now).await?;
        Ok((started, self.commit_board(board).await?))
    }

    async fn admit(
        &mut self,
        board: &mut Board,
        admission: Admission,
        definition: i64,
        now: Timestamp,
    ) -> Result<Started, Failure> {
        let Admission { workflow, entries, input, steps, ended, activity } = admission;
        board.tally.count(&workflow, 1);
        board.tally.note(&workflow.namespace, &activity, now);
        let values = workflow_row::insert_args(&workflow, definition, input.as_str());
        let answer = self.ask(|sql| &sql.insert_workflow, values).await?;
        // Somebody else was first: look again.
        let seq: i64 = row::get(answer.rows.first().ok_or(Failure::Moved)?, 0)?;
        self.send(|sql| &sql.tell_workflow, workflow_row::entry_args(seq, &entries)).await;
        for (task, result, entry) in steps {
            board.create(task, Json::default(), result, entry);
        }
        let Workflow { id, state, .. } = workflow;
        board.rings.settled += u64::from(state.is_final());
        if let Some((step, ended)) = ended {
            self.conclude(board, step, &ended, now).await?;
        }
        Ok(Started { id, state, created: true })
    }

    /// Lets a step wait for the workflow that it is, and says where that is; or what the step has started
    /// already.
    async fn nest(
        &mut self,
        board: &mut Board,
        token: &Token,
        id: WorkflowId,
    ) -> Result<Result<Within, Started>, Failure> {
        self.lock_workflows(board, &[WorkflowId::of(token.task)]).await?;
        self.load_tasks(board, vec![token.task]).await?;
        let now = self.now().await?;
        let Some(row) = board.get(token.task) else {
            return Err(Rejected::NotFound { task: token.task }.into());
        };
        let task = row.task.clone();
        let parent =
            task.spec.workflow.and_then(|id| board.workflows.get(&id)).map(|it| it.stored.workflow.clone());
        let changes = nest(&Before { workflow: parent.as_ref(), ..Before::of(&task) }, token, now)?;
        if changes.tasks.is_empty()
            && let Some(child) = self.child(task.id).await?
        {
            self.lock_workflows(board, &[child]).await?;
            if let Some(child) = board.workflows.get(&child).map(|locked| &locked.stored.workflow) {
                return Ok(Err(Started { id: child.id, state: child.state, created: false }));
            }
        }
        let within = Within::step(&task, parent.as_ref(), id)?;
        board.apply(&task, changes, true);
        Ok(Ok(within))
    }

    /// The lanes of a step and of those above it. What they are never changes, so nothing is locked.
    async fn lanes_held(&mut self, mut step: Option<TaskId>) -> Result<Vec<HeldLane>, Failure> {
        let mut held = Vec::new();
        while let Some(id) = step {
            self.send(|sql| &sql.steps, range_args(&(id..=id))).await;
            self.send(|sql| &sql.workflow, args![wide(WorkflowId::of(id)) => UUID]).await;
            let answers = self.answers().await?;
            let [steps, workflows] = &answers[..] else { break };
            let (Some(task), Some(above)) = (steps.rows.first(), workflows.rows.first()) else { break };
            let (task, above) = (row::task(task)?.1, workflow_row::stored(above)?);
            held.extend(HeldLane::of(&task, &*self.blueprint_of(&above).await?));
            step = above.workflow.parent;
        }
        Ok(held)
    }

    /// The lanes that are held above a step, if it is one.
    pub(super) async fn lanes_above(&mut self, task: &Task) -> Result<Option<LanesAbove>, Failure> {
        let Some(id) = task.spec.workflow else { return Ok(None) };
        let found = self.ask(|sql| &sql.workflow, args![wide(id) => UUID]).await?;
        let Some(own) = found.rows.first().map(workflow_row::stored).transpose()? else { return Ok(None) };
        let blueprint = self.blueprint_of(&own).await?;
        let held = self.lanes_held(own.workflow.parent).await?;
        Ok(Some(LanesAbove::of(task, &blueprint, held)))
    }

    /// Changes a workflow as a whole. Its row is locked.
    async fn steer(
        &mut self,
        board: &mut Board,
        id: WorkflowId,
        steering: &Steering,
        by: &By,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let Some(stored) = board.workflows.get(&id).map(|locked| locked.stored.clone()) else {
            return Err(Rejected::UnknownWorkflow { workflow: id }.into());
        };
        let mut cascade = Cascade::new(self.blueprint_of(&stored).await?, stored.workflow, now);
        cascade.steer(steering, by)?;
        self.drive(board, id, cascade, now).await
    }

    /// Looks for items that go.
    pub(super) async fn clear(&mut self, board: &mut Board) -> Result<(), Failure> {
        for range in board.take_cleared() {
            for row in self.ask(|sql| &sql.steps, range_args(&range)).await?.rows {
                let (seq, task) = row::task(&row)?;
                board.clear(seq, &task);
            }
        }
        Ok(())
    }

    /// What has to follow from all that was done to tasks of workflows.
    pub(super) async fn follow_up(&mut self, board: &mut Board, now: Timestamp) -> Result<(), Failure> {
        self.clear(board).await?;
        while let Some((id, noted)) = board.touched.pop() {
            self.lock_workflows(board, &[id]).await?;
            let Some(stored) = board.workflows.get(&id).map(|locked| locked.stored.clone()) else { continue };
            let blueprint = self.blueprint_of(&stored).await?;
            self.inner.blueprints.follow(id, &blueprint);
            let mut cascade = Cascade::new(blueprint, stored.workflow, now);
            noted.tell(&mut cascade);
            self.drive(board, id, cascade, now).await?;
        }
        Ok(())
    }

    async fn conclude(
        &mut self,
        board: &mut Board,
        step: TaskId,
        ended: &Ended,
        now: Timestamp,
    ) -> Result<(), Failure> {
        self.lock_workflows(board, &[WorkflowId::of(step)]).await?;
        self.load_tasks(board, vec![step]).await?;
        if let Some(task) = board.get(step).map(|row| row.task.clone()) {
            board.apply(&task, conclude(&task, ended, now), false);
        }
        Ok(())
    }

    async fn drive(
        &mut self,
        board: &mut Board,
        id: WorkflowId,
        mut cascade: Cascade,
        now: Timestamp,
    ) -> Result<(), Failure> {
        while let Some(wanted) = cascade.wanted() {
            match wanted {
                Wanted::Tasks(ids) => {
                    self.load_tasks(board, ids.clone()).await?;
                    let rows = ids.iter().filter_map(|id| board.get(*id));
                    cascade.give(rows.map(|row| row.task.clone()).collect());
                }
                Wanted::Unsettled(range) => {
                    // What is not written yet would not be found.
                    self.settle(board).await?;
                    self.load_between(board, &range).await?;
                    let rows = board.rows().filter(|row| range.contains(&row.task.id));
                    let open = rows.filter(|row| !row.task.status.state.is_final());
                    cascade.give(open.map(|row| row.task.clone()).collect());
                }
                Wanted::Results(ids) => {
                    self.settle(board).await?;
                    let ids: Vec<_> = ids.into_iter().map(uuid).collect();
                    let answer = self.ask(|sql| &sql.results, args![ids => UUID_ARRAY]).await?;
                    let results = answer.rows.iter().map(|row| row::json(row, 0));
                    cascade.give_results(&results.collect::<Result<Vec<_>, Foreign>>()?);
                }
            }
        }
        Box::pin(self.write_cascaded(board, id, cascade.done(), now)).await
    }

    async fn write_cascaded(
        &mut self,
        board: &mut Board,
        id: WorkflowId,
        done: Cascaded,
        now: Timestamp,
    ) -> Result<(), Failure> {
        board.tally.note(&done.namespace, &done.activity, now);
        for (_, change) in done.tasks {
            board.change(change, false);
        }
        if let (Some(change), Some(locked)) = (done.workflow, board.workflows.get_mut(&id)) {
            let before = locked.stored.workflow.state;
            board.rings.settled += u64::from(change.after.state.is_settled() && !before.is_settled());
            board.tally.count(&locked.stored.workflow, -1);
            board.tally.count(&change.after, 1);
            locked.change(change.after, change.entries);
        }
        for step in done.abandoned {
            let Some(child) = self.child(step).await? else { continue };
            self.lock_workflows(board, &[child]).await?;
            let is_open = |locked: &Locked| !locked.stored.workflow.state.is_final();
            if board.workflows.get(&child).is_some_and(is_open) {
                let by = By { note: Some("the step that it is was settled".into()), ..By::default() };
                self.steer(board, child, &Steering::Cancel, &by, now).await?;
            }
        }
        if let Some((step, ended)) = done.ended {
            self.conclude(board, step, &ended, now).await?;
        }
        Ok(())
    }

    /// Removes workflows that retention does not keep, at most `limit`, with all that belongs to them. Says
    /// how many.
    pub(super) async fn prune_workflows(
        &mut self,
        board: &mut Board,
        retention: &Retention,
        limit: usize,
        now: Timestamp,
    ) -> Result<usize, Failure> {
        let (states, before): (Vec<_>, Vec<_>) =
            retention.workflow_cutoffs(now).map(|(state, before)| (state.word(), moment(before))).unzip();
        let values = args![states => TEXT_ARRAY, before => TIMESTAMPTZ_ARRAY, row::signed(limit) => INT8];
        let forgotten = moment(now.minus(limits::ACTIVITY));
        self.send(|sql| &sql.forget_activity, args![forgotten => TIMESTAMPTZ]).await;
        let old = self.ask(|sql| &sql.old_workflows, values).await?.rows;
        for row in &old {
            let sort = (row::name(row, 4)?, row::name(row, 5)?, row::parse(row, 6)?);
            *board.tally.states.entry(sort).or_default() -= 1;
            let (seq, definition): (i64, i64) = (row::get(row, 0)?, row::get(row, 2)?);
            let range = workflow_row::workflow_id(row, 1)?.tasks();
            for row in self.ask(|sql| &sql.count_steps, range_args(&range)).await?.rows {
                let sort = (row::name(&row, 0)?, row::name(&row, 1)?, row::name(&row, 2)?, true);
                board.count_sort(sort, row::parse(&row, 3)?, -row::get::<i64>(&row, 4)?);
            }
            let gone = self.ask(|sql| &sql.delete_steps, range_args(&range)).await?.rows;
            let gone = gone.iter().map(|row| row::get(row, 0)).collect::<Result<Vec<i64>, Foreign>>()?;
            self.send(|sql| &sql.delete_history, args![gone => INT8_ARRAY]).await;
            self.send(|sql| &sql.delete_workflow, args![seq => INT8]).await;
            self.send(|sql| &sql.delete_workflow_history, args![seq => INT8]).await;
            if Workflow::is_own_version(row::get(row, 3)?) {
                self.send(|sql| &sql.delete_definition, args![definition => INT8]).await;
                self.inner.blueprints.forget(definition);
            }
        }
        self.answers().await?;
        Ok(old.len())
    }
}
