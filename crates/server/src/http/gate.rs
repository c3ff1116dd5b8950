//! One gate for every request: may this caller run this verb, under which name, and what does the audit log
//! say?
//!
//! The policy is [`Guarded`](windlass::verbs::Guarded): what a verb needs, and what it concerns. Here that is
//! held against the caller's token. A task is open if its namespace and its queue are. What is of no queue is
//! closed to a token for some queues, and what is of no namespace to every limited token, because it would
//! show or change what others have. Lists are filtered instead.
//!
//! A public route and a call of `/v1/store` pass the same gate: [`Gate::run`] for a verb, [`Gate::admit`] for
//! a route that takes several calls to do what one verb stands for.

use std::collections::BTreeSet;
use std::slice::from_ref;

use axum::http::StatusCode;
use windlass::access::Scope;
use windlass::remote::{Gatekeeper, WORKER_SECRET_HEADER};
use windlass::verbs::{Access, AuditNote, AuditSubject, Scopes, Subject, Verb, WorkerProof};
use windlass::{
    By, Child, Definition, Error, Name, NewAuditEntry, NewWorkflow, Place, Rejected, Source, TaskId, Token,
    WorkerId, WorkerSecret, WorkflowId,
};

use super::{Answered, App, Caller, Problem};

/// The gate, for one caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate<'a> {
    app: &'a App,
    caller: &'a Caller,
    /// What the audit log calls it, if the route knows better than the verb.
    action: Option<&'static str>,
}

impl App {
    /// The gate that a caller has to pass.
    pub(crate) fn gate<'a>(&'a self, caller: &'a Caller) -> Gate<'a> {
        Gate { app: self, caller, action: None }
    }
}

impl Gatekeeper for Gate<'_> {
    type Refusal = Problem;

    async fn run<V: Verb>(&self, verb: V) -> Answered<Result<V::Answer, Error>> {
        match self.check_all(verb).await? {
            Ok(verb) => Ok(self.perform(verb).await),
            Err(error) => Ok(Err(error)),
        }
    }
}

impl Gate<'_> {
    /// With another word in the audit log.
    pub(crate) fn called(self, action: &'static str) -> Self {
        Self { action: Some(action), ..self }
    }

    /// Runs a verb, if the caller may.
    pub(crate) async fn run<V: Verb>(&self, verb: V) -> Answered<V::Answer> {
        Ok(Gatekeeper::run(self, verb).await??)
    }

    /// Runs a verb that was admitted. What is closed to the caller is left out of the answer.
    pub(crate) async fn perform<V: Verb>(&self, admitted: V) -> Result<V::Answer, Error> {
        let store = &**self.app.windlass.store();
        if !self.caller.is_limited() {
            return admitted.run(store).await;
        }
        let is_open = |namespace: &Name, queues: &[Name]| self.caller.sees(namespace, queues);
        let mut answer = admitted.run_limited(store, &is_open).await?;
        V::filter(&mut answer, &is_open);
        Ok(answer)
    }

    /// Checks that the caller may run a verb, puts its name to it, and writes the audit entry: what cannot be
    /// written down is not done.
    pub(crate) async fn admit<V: Verb>(&self, verb: V) -> Answered<V> {
        Ok(self.check_all(verb).await??)
    }

    /// As [`Gate::admit`]. The inner error is one that the store itself would answer.
    async fn check_all<V: Verb>(&self, mut verb: V) -> Answered<Result<V, Error>> {
        verb.rename_actors(&|behalf| self.caller.actor(behalf));
        verb.set_worker_secret(self.caller.worker_secret().map(WorkerSecret::digest));
        let Access { scopes, subjects, proofs, mut audit } = verb.access();
        self.caller.check_scopes(&scopes)?;
        for proof in &proofs {
            match self.prove(proof).await? {
                Ok(note) => audit.extend(note),
                Err(unknown) => return Ok(Err(unknown.into())),
            }
        }
        for subject in &subjects {
            self.check(subject).await?;
        }
        for note in audit {
            self.audit(note).await?;
        }
        Ok(Ok(verb))
    }

    /// Whether the caller may act for a worker, and the audit entry if it is an operator that does. The inner
    /// error says that the store does not know the worker.
    async fn prove(&self, proof: &WorkerProof<'_>) -> Answered<Result<Option<AuditNote>, Rejected>> {
        let Self { app, caller, .. } = *self;
        let (worker, secret) = (proof.worker(), caller.worker_secret());
        let is_operator = match proof {
            WorkerProof::Registers(_) => return check_new_secret(worker, secret).map(|()| Ok(None)),
            WorkerProof::Acts(_) => false,
            // Without tokens everybody would be one.
            WorkerProof::Leaves(_) => !caller.is_anybody() && caller.check(Scope::Admin).is_ok(),
            WorkerProof::IsRead(_) if caller.check(Scope::Read).is_ok() => return Ok(Ok(None)),
            WorkerProof::IsRead(_) => false,
        };
        let is_proven = match secret {
            Some(secret) => app.fleet.has_secret(app, worker, &secret.digest()).await?,
            None if is_operator => Some(false),
            None => return Err(secret_required(worker)),
        };
        match (is_proven, proof) {
            (Some(true), _) => Ok(Ok(None)),
            // One that has left may leave again.
            (None, WorkerProof::Leaves(_)) => Ok(Ok(None)),
            (None, _) => Ok(Err(Rejected::InvalidWorker { worker: worker.clone() })),
            (Some(false), _) if is_operator => Ok(Ok(Some(AuditNote {
                action: "worker.deregister",
                subject: AuditSubject::Named(worker.to_string()),
                by: By::default(),
                namespace: None,
            }))),
            (Some(false), _) => Err(Rejected::WrongWorkerSecret { worker: worker.clone() }.into()),
        }
    }

    /// Whether what a verb concerns is open to the caller.
    async fn check(&self, subject: &Subject<'_>) -> Answered<()> {
        let Self { app, caller, .. } = *self;
        if let Subject::Start(workflow) = subject {
            self.check_defined(workflow).await?;
        }
        if !caller.is_limited() {
            return Ok(());
        }
        let store = app.windlass.store();
        match subject {
            Subject::Everything => caller.check_unlimited(),
            Subject::Namespace(namespace) => {
                caller.check_namespace(namespace)?;
                caller.check_every_queue()
            }
            Subject::EachNamespace => caller.check_every_queue(),
            Subject::WholeWorkflow(id) => {
                caller.check_every_queue()?;
                self.check_workflow(*id).await
            }
            Subject::Queues(namespace, queues) => caller.check_queues(namespace, queues),
            Subject::QueueEverywhere(queue) => caller.check_queue(queue),
            Subject::InBatch(index, namespace, queue) => caller
                .check_queues(namespace, from_ref(queue))
                .map_err(|problem| Problem { index: Some(*index), ..problem }),
            Subject::Worker(worker) => match app.fleet.wanted(app, worker).await {
                Ok(wanted) => caller.check_queues(&wanted.namespace, &wanted.queues),
                Err(problem) if problem.status == StatusCode::NOT_FOUND => Ok(()),
                Err(problem) => Err(problem),
            },
            Subject::Holder(worker) => {
                let wanted = app.fleet.wanted(app, worker).await?;
                caller.check_queues(&wanted.namespace, &wanted.queues)
            }
            Subject::Task(id) => self.check_task(*id).await,
            Subject::TaskByKey(namespace, kind, key) => {
                caller.check_namespace(namespace)?;
                match store.find((*namespace).clone(), (*kind).clone(), (*key).into()).await? {
                    Some(id) => self.check_task(id).await,
                    None => Ok(()),
                }
            }
            Subject::Results(tasks) => self.check_results(tasks).await,
            Subject::Schedule(namespace, name) => {
                caller.check_namespace(namespace)?;
                let schedules = store.schedules().await?;
                let found = schedules.iter().find(|one| (&one.namespace, &one.name) == (*namespace, *name));
                found.map_or(Ok(()), |schedule| caller.check_queue(&schedule.template.task().queue))
            }
            Subject::Workflow(id) => self.check_workflow(*id).await,
            Subject::WorkflowByKey(namespace, name, key) => {
                caller.check_namespace(namespace)?;
                match store.find_workflow((*namespace).clone(), (*name).clone(), (*key).into()).await? {
                    Some(id) => self.check_workflow(id).await,
                    None => Ok(()),
                }
            }
            Subject::Definition(namespace, name, version) => {
                caller.check_namespace(namespace)?;
                if !caller.is_limited_to_queues() {
                    return Ok(());
                }
                let version = version.map(Into::into);
                match store.definition((*namespace).clone(), (*name).clone(), version).await? {
                    Some(found) => self.check_steps(found.blueprint.definition()),
                    None => Ok(()),
                }
            }
            Subject::Start(workflow) => {
                caller.check_namespace(&workflow.namespace)?;
                match caller.is_limited_to_queues() {
                    true => self.check_start(&workflow.namespace, &workflow.source).await,
                    // What it starts is of the same namespace.
                    false => Ok(()),
                }
            }
        }
    }

    async fn check_task(&self, id: TaskId) -> Answered<()> {
        match self.app.windlass.store().facts(id).await? {
            Some(facts) => {
                let spec = &facts.task.spec;
                self.caller.check_queues(&spec.namespace, from_ref(&spec.queue))
            }
            None => Ok(()),
        }
    }

    async fn check_workflow(&self, id: WorkflowId) -> Answered<()> {
        match self.app.windlass.store().workflow(id).await? {
            Some(record) => {
                self.caller.check_namespace(&record.workflow.namespace)?;
                self.check_steps(record.blueprint.definition())
            }
            None => Ok(()),
        }
    }

    /// Whether a workflow may be looked at: all its steps are in queues that are open. For a caller that may
    /// work one is enough: for that step it is given what the definition says, and what the steps before have
    /// returned.
    fn check_steps(&self, definition: &Definition) -> Answered<()> {
        let caller = self.caller;
        let mut queues = definition.queues();
        if caller.check(Scope::Work).is_ok() && queues.clone().any(|queue| caller.check_queue(&queue).is_ok())
        {
            return Ok(());
        }
        queues.try_for_each(|queue| caller.check_queue(&queue))
    }

    async fn check_results(&self, tasks: &[TaskId]) -> Answered<()> {
        let (store, mut checked) = (self.app.windlass.store(), BTreeSet::new());
        for task in tasks {
            let Some(facts) = store.facts(*task).await? else { continue };
            match facts.task.spec.workflow {
                None => {
                    let spec = &facts.task.spec;
                    self.caller.check_queues(&spec.namespace, from_ref(&spec.queue))?;
                }
                Some(workflow) if checked.insert(workflow) => self.check_workflow(workflow).await?,
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Whether the caller may define what it starts. It is asked of every token, limited or not.
    async fn check_defined(&self, workflow: &NewWorkflow) -> Answered<()> {
        if let Source::AdHoc(definition) = &workflow.source {
            self.check_programs(definition)?;
        }
        match &workflow.parent {
            Some(parent) if !self.caller.is_anybody() => self.check_child(workflow, parent).await,
            _ => Ok(()),
        }
    }

    /// A program runs on a worker's machine, as the worker's user.
    fn check_programs(&self, definition: &Definition) -> Answered<()> {
        match definition.steps.iter().find(|step| step.run.is_some()) {
            Some(step) if self.caller.check(Scope::Admin).is_err() => Err(Problem::forbidden(format!(
                "the step {:?} is a program (`run`), and defining one needs a token for admin; have an operator store the definition, and start it by its name",
                &*step.name
            ))),
            _ => Ok(()),
        }
    }

    /// A worker that holds a step starts what that step names, and nothing else.
    async fn check_child(&self, workflow: &NewWorkflow, parent: &Token) -> Answered<()> {
        let store = self.app.windlass.store();
        let above = match store.facts(parent.task).await?.and_then(|facts| facts.task.spec.workflow) {
            Some(id) => store.workflow(id).await?,
            None => None,
        };
        let named = above.as_ref().and_then(|above| {
            let step = above.blueprint.step(Place::of(parent.task).step)?;
            let Child { name, version } = step.workflow.as_ref()?;
            Some((&above.workflow.namespace, Source::Named { name: name.clone(), version: version.clone() }))
        });
        match named {
            Some((namespace, source)) if *namespace == workflow.namespace && source == workflow.source => {
                Ok(())
            }
            _ => Err(Problem::forbidden(format!(
                "the step {} does not name this workflow; a worker starts below a step what the step's definition says",
                parent.task
            ))),
        }
    }

    /// Whether the caller may submit to all queues that a workflow has steps in, and the workflows that are
    /// steps of it.
    async fn check_start(&self, namespace: &Name, source: &Source) -> Answered<()> {
        let caller = self.caller;
        let (mut seen, mut left) = (BTreeSet::new(), Vec::new());
        match source {
            Source::AdHoc(definition) => {
                definition.queues().try_for_each(|queue| caller.check_queue(&queue))?;
                left.extend(children(definition));
            }
            Source::Named { name, version } => left.push((name.clone(), version.clone())),
        }
        while let Some((name, version)) = left.pop() {
            if !seen.insert((name.clone(), version.clone())) {
                continue;
            }
            match self.app.windlass.store().definition(namespace.clone(), name.clone(), version).await? {
                Some(found) => {
                    let definition = found.blueprint.definition();
                    definition.queues().try_for_each(|queue| caller.check_queue(&queue))?;
                    left.extend(children(definition));
                }
                // The start itself says that there is none. A workflow within may be defined until its step
                // comes, with any queue.
                None if matches!(source, Source::Named { .. }) && seen.len() == 1 => {}
                None => {
                    return Err(caller.kept_from(&format!("the workflow {:?}, which is not known", &*name)));
                }
            }
        }
        Ok(())
    }

    /// Writes the audit entry of something that an operator does.
    async fn audit(&self, note: AuditNote) -> Answered<()> {
        let AuditNote { action, subject, by, namespace } = note;
        let action = self.action.unwrap_or(action);
        let (action, subject, namespace) = match subject {
            AuditSubject::Named(subject) => (action.to_owned(), subject, namespace),
            AuditSubject::Task(id) => self.task_or_step(action, id).await?,
            AuditSubject::Workflow(id) => {
                let found = self.app.windlass.store().workflow(id).await?;
                (action.to_owned(), id.to_string(), found.map(|record| record.workflow.namespace))
            }
        };
        let By { actor, note } = self.caller.explained(by);
        let entry = NewAuditEntry {
            actor: actor.filter(|actor| !actor.is_empty()).unwrap_or_else(|| self.caller.name().into()),
            action,
            subject,
            reason: note.filter(|reason| !reason.is_empty()),
            namespace,
        };
        Ok(self.app.windlass.store().audit(entry).await?)
    }

    /// A step is called by its workflow and its name.
    async fn task_or_step(
        &self,
        action: &'static str,
        id: TaskId,
    ) -> Answered<(String, String, Option<Name>)> {
        let client = self.app.windlass.client();
        let task = self.app.windlass.store().facts(id).await?.map(|facts| facts.task);
        let step = match &task {
            Some(task) => client.step_name(task).await?.zip(task.spec.workflow),
            None => None,
        };
        let (action, subject) = match step {
            Some((step, workflow)) => (action.replacen("task.", "step.", 1), format!("{workflow}/{step}")),
            None => (action.into(), id.to_string()),
        };
        Ok((action, subject, task.map(|task| task.spec.namespace)))
    }
}

/// Whether a worker brings a secret when it registers. Whether it is the one of the worker of that id, if
/// there is one, is for the store to say: two may register at once.
fn check_new_secret(worker: &WorkerId, secret: Option<&WorkerSecret>) -> Answered<()> {
    match secret {
        Some(secret) if secret.is_well_formed() => Ok(()),
        Some(_) => Err(Problem::bad_request(format!(
            "the header {WORKER_SECRET_HEADER} is not a secret of a worker; send `wlw_` and 64 hexadecimal digits, or leave it out and be given one"
        ))),
        None => Err(secret_required(worker)),
    }
}

/// The refusal of a caller that names a worker and does not prove to be it.
pub(crate) fn secret_required(worker: &WorkerId) -> Problem {
    let detail = format!(
        "this is for the worker {worker} itself; send the secret that it was given when it registered, as the header {WORKER_SECRET_HEADER}"
    );
    Problem::new(StatusCode::FORBIDDEN, "worker_secret_required", detail)
}

impl Caller {
    /// Whether its token is for what a verb needs.
    fn check_scopes(&self, scopes: &Scopes) -> Answered<()> {
        match scopes {
            Scopes::Open => Ok(()),
            Scopes::AnyOf(scopes) => self.check_any(scopes),
            Scopes::AllOf(scopes) => scopes.iter().try_for_each(|scope| self.check(*scope)),
            Scopes::Nobody(why) => Err(Problem::forbidden(*why)),
        }
    }
}

/// The workflows that are steps of one.
fn children(definition: &Definition) -> impl Iterator<Item = (Name, Option<String>)> {
    let child = |Child { name, version }: &Child| (name.clone(), version.clone());
    definition.steps.iter().filter_map(|step| step.workflow.as_ref()).map(child)
}
