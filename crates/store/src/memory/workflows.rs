//! Definitions and workflows.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use windlass_core::{
    Activity, Before, BlockingReason, By, Cascade, Definition, Ended, Execution, Executions, HeldLane, Json,
    LanesAbove, Name, NewWorkflow, OnConflict, Place, Rejected, Retention, Source, Steering, Task, TaskId,
    Timestamp, Token, Wanted, Within, Workflow, WorkflowId, WorkflowState, conclude, limits, nest,
};

use super::Rows;
use crate::request::{Look, Reconciled, Record};
use crate::workflow::{
    Defined, DefinitionLine, ReadyWorkflow, Started, StoredDefinition, WorkflowCount, WorkflowRecord,
    check_definition, next_version,
};

impl Rows {
    pub(super) fn define(
        &mut self,
        namespace: &Name,
        definition: Definition,
        now: Timestamp,
    ) -> Result<Defined, Rejected> {
        let (name, wanted) = (definition.name.clone(), definition.version.clone());
        let (blueprint, content) = check_definition(definition)?;
        let known = self.definitions.iter().filter(|one| one.namespace == *namespace && *one.name() == name);
        let known: Vec<_> = known.filter(|one| !Workflow::is_own_version(&one.version)).collect();
        let is_same = |one: &&&StoredDefinition| one.blueprint.definition().content() == content;
        let version = match wanted {
            Some(version) => match known.iter().find(|one| one.version == version) {
                Some(one) if is_same(&one) => return Ok(Defined { version, created: false }),
                Some(_) => return Err(Rejected::DefinitionConflict { name: name.to_string(), version }),
                None => version,
            },
            None => match known.iter().rev().find(is_same) {
                Some(one) => return Ok(Defined { version: one.version.clone(), created: false }),
                None => next_version(known.iter().map(|one| &*one.version)),
            },
        };
        let (namespace, created_at) = (namespace.clone(), now);
        self.definitions.push(StoredDefinition {
            namespace,
            version: version.clone(),
            blueprint,
            created_at,
        });
        Ok(Defined { version, created: true })
    }

    pub(super) fn definition(
        &self,
        namespace: &Name,
        name: &Name,
        version: Option<&str>,
    ) -> Option<&StoredDefinition> {
        if version.is_some_and(Workflow::is_own_version) {
            return None;
        }
        let same = self.definitions.iter().filter(|one| one.namespace == *namespace && one.name() == name);
        same.rev().find(|one| match version {
            Some(version) => one.version == version,
            None => !Workflow::is_own_version(&one.version),
        })
    }

    pub(super) fn definition_lines(&self, namespace: &Name, name: Option<&Name>) -> Vec<DefinitionLine> {
        let own =
            |one: &&StoredDefinition| one.namespace == *namespace && !Workflow::is_own_version(&one.version);
        let mut newest = BTreeMap::new();
        let mut lines = Vec::new();
        for one in self.definitions.iter().filter(own) {
            let line = DefinitionLine {
                name: one.name().clone(),
                version: one.version.clone(),
                steps: one.blueprint.len(),
                created_at: one.created_at,
            };
            match name {
                Some(name) if *name == line.name => lines.push(line),
                Some(_) => {}
                None => drop(newest.insert(line.name.clone(), line)),
            }
        }
        lines.extend(newest.into_values());
        lines
    }

    pub(super) fn workflow(&self, id: WorkflowId) -> Option<&WorkflowRecord> {
        self.workflows.values().find(|record| record.workflow.id == id)
    }

    pub(super) fn find_workflow(&self, namespace: &Name, name: &Name, key: &str) -> Option<&Workflow> {
        self.workflows.values().map(|record| &record.workflow).find(|workflow| {
            workflow.namespace == *namespace && workflow.name == *name && workflow.key.as_deref() == Some(key)
        })
    }

    /// The workflow that a step is.
    fn child(&self, step: TaskId) -> Option<&Workflow> {
        let all = self.workflows.values().rev().map(|record| &record.workflow);
        all.into_iter().find(|workflow| workflow.parent == Some(step))
    }

    pub(super) fn start(&mut self, mut new: NewWorkflow, now: Timestamp) -> Result<Started, Rejected> {
        let (blueprint, version) = match &new.source {
            Source::Named { name, version } => {
                let unknown = || {
                    let (name, version) = (name.to_string(), version.clone());
                    Rejected::UnknownDefinition { name, version }
                };
                let found = self.definition(&new.namespace, name, version.as_deref()).ok_or_else(unknown)?;
                (found.blueprint.clone(), found.version.clone())
            }
            Source::AdHoc(definition) => {
                (check_definition((**definition).clone())?.0, Workflow::own_version(new.id))
            }
        };
        let name = &blueprint.definition().name;
        if let Some(key) = &new.key
            && let Some(workflow) = self.find_workflow(&new.namespace, name, key)
        {
            let (id, state) = (workflow.id, workflow.state);
            return match new.on_conflict {
                OnConflict::Return => Ok(Started { id, state, created: false }),
                OnConflict::Reject => Err(Rejected::WorkflowKeyConflict { key: key.clone(), existing: id }),
            };
        }
        let mut within = Within::default();
        if let Some(token) = new.parent.clone() {
            match self.nest(&token, new.id, now)? {
                Ok(found) => within = found,
                Err(started) => return Ok(started),
            }
        }
        if blueprint.has_lanes() {
            let held = new.parent.as_ref().map_or_else(Vec::new, |token| self.lanes_held(Some(token.task)));
            new.check_lanes(&blueprint, &held)?;
        }
        if self.workflow(new.id).is_some() || self.seqs.range(new.id.reserved()).next().is_some() {
            return Err(Rejected::WorkflowIdConflict { workflow: new.id });
        }
        if let Source::AdHoc(_) = &new.source {
            let (namespace, version) = (new.namespace.clone(), version.clone());
            let blueprint = blueprint.clone();
            self.definitions.push(StoredDefinition { namespace, version, blueprint, created_at: now });
        }
        if let Some(token) = new.parent.take() {
            self.wait_for_child(&token, now)?;
            new.parent = Some(token);
        }
        let admission = new.admit(&blueprint, version, within, now);
        let started = Started { id: admission.workflow.id, state: admission.workflow.state, created: true };
        self.note_activity(&admission.workflow.namespace, &admission.activity, now);
        for (task, result, entry) in admission.steps {
            self.insert(task, Json::default(), result, entry);
        }
        self.last_seq += 1;
        let record = WorkflowRecord {
            workflow: admission.workflow,
            blueprint,
            input: admission.input,
            history: admission.entries,
        };
        self.rings.settled += u64::from(record.workflow.state.is_final());
        self.workflows.insert(self.last_seq, record);
        if let Some((step, ended)) = admission.ended {
            self.conclude(step, &ended, now);
        }
        self.follow_up(now);
        Ok(started)
    }

    /// Where the workflow of a step would be; or what it has started already.
    fn nest(
        &self,
        token: &Token,
        id: WorkflowId,
        now: Timestamp,
    ) -> Result<Result<Within, Started>, Rejected> {
        let Some(record) = self.record(token.task) else {
            return Err(Rejected::NotFound { task: token.task });
        };
        let parent = record.task.spec.workflow.and_then(|id| self.workflow(id)).map(|it| &it.workflow);
        let before = Before { workflow: parent, ..Before::of(&record.task) };
        let changes = nest(&before, token, now)?;
        if changes.tasks.is_empty()
            && let Some(child) = self.child(token.task)
        {
            return Ok(Err(Started { id: child.id, state: child.state, created: false }));
        }
        Ok(Ok(Within::step(&record.task, parent, id)?))
    }

    /// The lanes of a step and of those above it.
    fn lanes_held(&self, mut step: Option<TaskId>) -> Vec<HeldLane> {
        let mut held = Vec::new();
        while let Some(Record { task, .. }) = step.and_then(|step| self.record(step)) {
            let Some(above) = task.spec.workflow.and_then(|id| self.workflow(id)) else { break };
            held.extend(HeldLane::of(task, &above.blueprint));
            step = above.workflow.parent;
        }
        held
    }

    /// The lanes that are held above a step.
    pub(super) fn lanes_above(&self, task: &Task) -> Option<LanesAbove> {
        let own = self.workflow(task.spec.workflow?)?;
        Some(LanesAbove::of(task, &own.blueprint, self.lanes_held(own.workflow.parent)))
    }

    /// Lets a step wait for the workflow that it is.
    fn wait_for_child(&mut self, token: &Token, now: Timestamp) -> Result<(), Rejected> {
        let Some(task) = self.record(token.task).map(|record| record.task.clone()) else { return Ok(()) };
        let parent = task.spec.workflow.and_then(|id| self.workflow(id)).map(|it| &it.workflow);
        let changes = nest(&Before { workflow: parent, ..Before::of(&task) }, token, now)?;
        self.touched.note(&task, &changes);
        self.write(task.id, changes, true);
        Ok(())
    }

    pub(super) fn steer(
        &mut self,
        id: WorkflowId,
        steering: &Steering,
        by: &By,
        now: Timestamp,
    ) -> Result<Workflow, Rejected> {
        let unknown = Rejected::UnknownWorkflow { workflow: id };
        let Some(WorkflowRecord { workflow, blueprint, .. }) = self.workflow(id) else { return Err(unknown) };
        let mut cascade = Cascade::new(blueprint.clone(), workflow.clone(), now);
        cascade.steer(steering, by)?;
        self.drive(cascade, now);
        self.follow_up(now);
        self.workflow(id).map(|record| record.workflow.clone()).ok_or(unknown)
    }

    /// What has to follow from all that was done to tasks of workflows.
    pub(super) fn follow_up(&mut self, now: Timestamp) {
        while let Some((id, noted)) = self.touched.pop() {
            let Some(WorkflowRecord { workflow, blueprint, .. }) = self.workflow(id) else { continue };
            let mut cascade = Cascade::new(blueprint.clone(), workflow.clone(), now);
            noted.tell(&mut cascade);
            self.drive(cascade, now);
        }
    }

    fn conclude(&mut self, step: TaskId, ended: &Ended, now: Timestamp) {
        if let Some(task) = self.record(step).map(|record| record.task.clone()) {
            let changes = conclude(&task, ended, now);
            self.touched.note(&task, &changes);
            self.write(step, changes, false);
        }
    }

    pub(super) fn in_range(&self, range: RangeInclusive<TaskId>) -> impl Iterator<Item = &Task> {
        let steps =
            self.tasks.values().map(|record| &record.task).filter(|task| task.spec.workflow.is_some());
        steps.filter(move |task| range.contains(&task.id))
    }

    fn drive(&mut self, mut cascade: Cascade, now: Timestamp) {
        while let Some(wanted) = cascade.wanted() {
            let task = |id: &TaskId| self.record(*id);
            match wanted {
                Wanted::Tasks(ids) => {
                    cascade.give(ids.iter().filter_map(task).map(|record| record.task.clone()).collect());
                }
                Wanted::Unsettled(range) => {
                    let open = self.in_range(range).filter(|task| !task.status.state.is_final());
                    cascade.give(open.cloned().collect());
                }
                Wanted::Results(ids) => {
                    let results: Vec<_> =
                        ids.iter().map(|id| task(id).and_then(|record| record.result.clone())).collect();
                    cascade.give_results(&results);
                }
            }
        }
        let cascaded = cascade.done();
        self.note_activity(&cascaded.namespace, &cascaded.activity, now);
        for (_, change) in cascaded.tasks {
            self.write_change(change, false);
        }
        if let Some(change) = cascaded.workflow {
            let record = self.workflows.values_mut().find(|record| record.workflow.id == change.after.id);
            if let Some(record) = record {
                self.rings.settled +=
                    u64::from(change.after.state.is_settled() && !record.workflow.state.is_settled());
                record.workflow = change.after;
                record.history.extend(change.entries);
            }
        }
        for step in cascaded.abandoned {
            let child = self.child(step).filter(|child| !child.state.is_final()).map(|child| child.id);
            if let Some(child) = child {
                let by = By { note: Some("the step that it is was settled".into()), ..By::default() };
                // It is there and not over, so it can be cancelled.
                drop(self.steer(child, &Steering::Cancel, &by, now));
            }
        }
        if let Some((step, ended)) = cascaded.ended {
            self.conclude(step, &ended, now);
        }
    }

    fn note_activity(&mut self, namespace: &Name, activity: &Activity, now: Timestamp) {
        if !activity.is_nothing() {
            let key = (Activity::minute(now), namespace.clone());
            self.activity.entry(key).or_default().add(activity);
        }
    }

    pub(super) fn workflow_counts(&self) -> Vec<WorkflowCount> {
        let mut counts = BTreeMap::<_, u64>::new();
        for WorkflowRecord { workflow, .. } in self.workflows.values() {
            let sort = (workflow.namespace.clone(), workflow.name.clone(), workflow.state);
            *counts.entry(sort).or_default() += 1;
        }
        let count =
            |((namespace, name, state), workflows)| WorkflowCount { namespace, name, state, workflows };
        counts.into_iter().map(count).collect()
    }

    pub(super) fn ready_workflows(
        &self,
        (namespace, name): (Option<&Name>, Option<&Name>),
        limit: usize,
        now: Timestamp,
    ) -> Vec<ReadyWorkflow> {
        let mut ready = Vec::new();
        let is_wanted = |workflow: &Workflow| {
            workflow.state == WorkflowState::StepsInProcess
                && namespace.is_none_or(|namespace| workflow.namespace == *namespace)
                && name.is_none_or(|name| workflow.name == *name)
        };
        for (seq, WorkflowRecord { workflow, .. }) in
            self.workflows.iter().filter(|(_, record)| is_wanted(&record.workflow))
        {
            let is_ready = |task: &&Task| BlockingReason::of(task, workflow.paused, now).is_none();
            let many = self.in_range(workflow.id.tasks()).filter(is_ready).count();
            if many > 0 {
                ready.push((std::cmp::Reverse(workflow.rank()), *seq, workflow, many));
            }
        }
        ready.sort_unstable_by_key(|(rank, seq, ..)| (*rank, *seq));
        let ready = ready.into_iter().take(limit);
        ready
            .map(|(.., workflow, ready)| ReadyWorkflow { workflow: workflow.clone(), ready: ready as u64 })
            .collect()
    }

    pub(super) fn activity(&self, since: Timestamp, wanted: Option<&Name>) -> Activity {
        let mut sum = Activity::default();
        let since = Activity::minute(since);
        for ((minute, namespace), activity) in &self.activity {
            if *minute >= since && wanted.is_none_or(|wanted| namespace == wanted) {
                sum.add(activity);
            }
        }
        sum
    }

    pub(super) fn executions(&self, wanted: &Executions) -> Vec<Execution> {
        let mut gathering = wanted.clone().gather();
        let all = self.workflows.values().filter(|record| wanted.wants(&record.workflow));
        for WorkflowRecord { workflow, blueprint, .. } in all {
            if !wanted.of_steps {
                gathering.note_workflow(workflow);
                continue;
            }
            for task in self.in_range(workflow.id.tasks()) {
                let step = blueprint.step(Place::of(task.id).step);
                gathering.note_step(workflow, step.map_or("", |step| &step.name), task);
            }
        }
        gathering.done()
    }

    /// Looks at the first workflow after `after` that is not over.
    pub(super) fn reconcile_workflow(&mut self, after: Option<WorkflowId>, now: Timestamp) -> Reconciled {
        let open = self.workflows.values().filter(|record| !record.workflow.state.is_final());
        let rest = open.filter(|record| after.is_none_or(|after| record.workflow.id > after));
        let Some(WorkflowRecord { workflow, blueprint, .. }) = rest.min_by_key(|record| record.workflow.id)
        else {
            return Reconciled::default();
        };
        let id = workflow.id;
        let mut cascade = Cascade::new(blueprint.clone(), workflow.clone(), now);
        let repaired = cascade.recount(self.in_range(id.tasks()).cloned().collect());
        if repaired > 0 {
            self.drive(cascade, now);
            self.follow_up(now);
        }
        Reconciled { repaired, next: Some(Look::next_workflow(id)) }
    }

    /// Deletes workflows that are older than `retention` allows, with all that belongs to them.
    pub(super) fn prune_workflows(&mut self, retention: &Retention, limit: usize, now: Timestamp) -> usize {
        self.activity.retain(|(minute, _), _| *minute >= now.minus(limits::ACTIVITY));
        let cutoffs: Vec<_> = retention.workflow_cutoffs(now).collect();
        let is_old = |workflow: &Workflow| {
            let finished = workflow.finished_at;
            cutoffs.iter().any(|(state, before)| *state == workflow.state && finished < Some(*before))
        };
        let old = self.workflows.iter().filter(|(_, record)| is_old(&record.workflow));
        let mut old: Vec<_> =
            old.map(|(seq, record)| (record.workflow.finished_at, *seq, record.workflow.id)).collect();
        old.sort_unstable();
        old.truncate(limit);
        for (_, seq, id) in &old {
            self.workflows.remove(seq);
            let own = Workflow::own_version(*id);
            self.definitions.retain(|one| one.version != own);
            let tasks: Vec<TaskId> = self.in_range(id.tasks()).map(|task| task.id).collect();
            tasks.into_iter().for_each(|task| self.delete(task));
        }
        old.len()
    }
}
