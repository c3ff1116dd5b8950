//! What is open to a token that is for some queues only.
//!
//! One decision for all ways in: a route, and a call of `/v1/store`, say what they are about, and it is decided here whether that is open. What is
//! of one queue is open if the queue is; what is of none is not, because it would show or change what others have. Lists whose rows are of
//! queues are shown in part instead: see [`Caller::sees`].

use std::collections::BTreeSet;

use axum::http::StatusCode;
use windlass::access::Scope;
use windlass::{Child, Definition, Name, Source, TaskId, WorkerId, WorkflowId};

use super::{Answered, App, Caller};

/// What a request is about.
#[derive(Debug)]
pub(crate) enum About<'a> {
    /// Something of these queues.
    Queues(&'a [Name]),
    /// A worker, if there is one of that name: what it takes from.
    Worker(&'a WorkerId),
    /// What a worker holds. It has to be known: nothing else says what it takes from.
    Holder(&'a WorkerId),
    /// A task, if there is one.
    Task(TaskId),
    /// What a task has returned; of a step, that belongs to its workflow.
    Results(&'a [TaskId]),
    /// A schedule, if there is one of that name.
    Schedule { namespace: &'a Name, name: &'a str },
    /// A workflow, if there is one.
    Workflow(WorkflowId),
    /// A definition, if there is one of that name.
    Definition { namespace: &'a Name, name: &'a Name, version: Option<&'a str> },
    /// The start of a workflow, with whatever is started by it.
    Start { namespace: &'a Name, source: &'a Source },
    /// Something that is of no queue, or of all.
    Everything,
}

impl Caller {
    /// Whether that is open to the caller.
    pub(crate) async fn may(&self, app: &App, about: About<'_>) -> Answered<()> {
        if !self.is_limited() {
            return Ok(());
        }
        let store = app.windlass.store();
        match about {
            About::Queues(queues) => self.check_queues(queues),
            About::Worker(worker) => match app.fleet.wanted(app, worker).await {
                Ok(wanted) => self.check_queues(&wanted.queues),
                Err(problem) if problem.status == StatusCode::NOT_FOUND => Ok(()),
                Err(problem) => Err(problem),
            },
            About::Holder(worker) => self.check_queues(&app.fleet.wanted(app, worker).await?.queues),
            About::Task(id) => match store.facts(id).await? {
                Some(facts) => self.check_queue(&facts.task.spec.queue),
                None => Ok(()),
            },
            About::Results(tasks) => self.check_results(app, tasks).await,
            About::Schedule { namespace, name } => {
                let schedules = store.schedules().await?;
                let found = schedules.iter().find(|one| one.namespace == *namespace && *one.name == *name);
                found.map_or(Ok(()), |schedule| self.check_queue(&schedule.template.task().queue))
            }
            About::Workflow(id) => match store.workflow(id).await? {
                Some(record) => self.check_steps(record.blueprint.definition()),
                None => Ok(()),
            },
            About::Definition { namespace, name, version } => {
                match store.definition(namespace, name, version).await? {
                    Some(found) => self.check_steps(found.blueprint.definition()),
                    None => Ok(()),
                }
            }
            About::Start { namespace, source } => self.check_start(app, namespace, source).await,
            About::Everything => self.check_unlimited(),
        }
    }

    /// Whether a row of these queues is shown to the caller.
    pub(crate) fn sees(&self, queues: &[Name]) -> bool {
        self.check_queues(queues).is_ok()
    }

    /// All of them must be open. A worker that takes from none, as a server is one, is of none.
    fn check_queues(&self, queues: &[Name]) -> Answered<()> {
        if queues.is_empty() {
            return self.check_unlimited();
        }
        queues.iter().try_for_each(|queue| self.check_queue(queue))
    }

    /// Whether a workflow may be looked at: all its steps are in queues that are open. To who may work one is enough: for that step it is given
    /// what the definition says, and what the steps before have returned.
    fn check_steps(&self, definition: &Definition) -> Answered<()> {
        let mut queues = queues(definition);
        if self.check(Scope::Work).is_ok() && queues.clone().any(|queue| self.check_queue(&queue).is_ok()) {
            return Ok(());
        }
        queues.try_for_each(|queue| self.check_queue(&queue))
    }

    async fn check_results(&self, app: &App, tasks: &[TaskId]) -> Answered<()> {
        let (store, mut checked) = (app.windlass.store(), BTreeSet::new());
        for task in tasks {
            let Some(facts) = store.facts(*task).await? else { continue };
            match facts.task.spec.workflow {
                None => self.check_queue(&facts.task.spec.queue)?,
                Some(workflow) if checked.insert(workflow) => {
                    if let Some(record) = store.workflow(workflow).await? {
                        self.check_steps(record.blueprint.definition())?;
                    }
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Whether the caller may submit to all queues that a workflow has steps in, and those that are steps of it.
    async fn check_start(&self, app: &App, namespace: &Name, source: &Source) -> Answered<()> {
        let (mut seen, mut left) = (BTreeSet::new(), Vec::new());
        match source {
            Source::AdHoc(definition) => {
                queues(definition).try_for_each(|queue| self.check_queue(&queue))?;
                left.extend(children(definition));
            }
            Source::Named { name, version } => left.push((name.clone(), version.clone())),
        }
        while let Some((name, version)) = left.pop() {
            if !seen.insert((name.clone(), version.clone())) {
                continue;
            }
            match app.windlass.store().definition(namespace, &name, version.as_deref()).await? {
                Some(found) => {
                    let definition = found.blueprint.definition();
                    queues(definition).try_for_each(|queue| self.check_queue(&queue))?;
                    left.extend(children(definition));
                }
                // The start itself says that there is none. A workflow within may be defined until its step comes, with any queue.
                None if matches!(source, Source::Named { .. }) && seen.len() == 1 => {}
                None => {
                    return Err(self.kept_from(&format!("the workflow {:?}, which is not known", &*name)));
                }
            }
        }
        Ok(())
    }
}

/// The queue of each step.
fn queues(definition: &Definition) -> impl Iterator<Item = Name> + Clone {
    definition.steps.iter().map(|step| {
        let queue = step.queue.as_ref().or(definition.defaults.queue.as_ref());
        queue.cloned().unwrap_or_default()
    })
}

/// The workflows that are steps of one.
fn children(definition: &Definition) -> impl Iterator<Item = (Name, Option<String>)> {
    let child = |Child { name, version }: &Child| (name.clone(), version.clone());
    definition.steps.iter().filter_map(|step| step.workflow.as_ref()).map(child)
}
