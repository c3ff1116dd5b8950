//! Who may run each verb, on what, and what the audit log says about it: one `impl` per verb.
//!
//! This is the whole policy. A server asks it for every request, whichever route it came by; a verb without
//! an entry does not compile. Who calls, and whether a task or a workflow is within the limits of its token,
//! is for the server to find out.

use std::collections::BTreeSet;
use std::slice::from_ref;

use windlass_core::access::Scope;
use windlass_core::{By, Command, Events, Name, Schedule, SecretDigest, Steering, Worker, WorkerId};

use super::access::{
    Access, ActorName, AuditNote, AuditSubject, Guarded, IsOpen, Scopes, Subject, WorkerProof,
};
use super::{
    Audit, Campaign, CountTasks, CountWorkflows, Define, Deregister, Describe, FindTask, FindWorkflow,
    FireSchedule, GetActivity, GetDefinition, GetDue, GetFacts, GetLeader, GetResults, GetTask, GetWorkflow,
    HadAccessTokens, HasEntity, Heartbeat, ListAccessTokens, ListAudit, ListDefinitions, ListEntities,
    ListPaused, ListReadyWorkflows, ListSchedules, ListSlowest, ListTasks, ListWorkers, ListWorkflows, Pause,
    Prune, PutAccessToken, ReadEvents, Reconcile, Register, RemoveSchedule, Resign, RevokeAccessToken,
    RotateAccessToken, SetEntity, SetSchedule, Start, Steer, Store, Submit, TakeTurn, TouchAccessTokens,
    limited,
};
use crate::error::Result;
use crate::request::{AuditListing, Count, Listing, Submitted};
use crate::workflow::{Started, WorkflowCount, WorkflowListing};

impl Guarded for Submit {
    fn access(&self) -> Access<'_> {
        let tasks = self.tasks.iter().enumerate();
        let subjects = match &*self.tasks {
            [task] => vec![Subject::Queues(&task.namespace, from_ref(&task.queue))],
            _ => tasks.map(|(at, task)| Subject::InBatch(at, &task.namespace, &task.queue)).collect(),
        };
        Access { subjects, ..Access::submit() }
    }

    fn rename_actors(&mut self, name: &ActorName<'_>) {
        self.tasks.iter_mut().for_each(|task| task.actor = name(task.actor.as_deref()));
    }

    async fn run_limited(self, store: &dyn Store, is_open: &IsOpen<'_>) -> Result<Vec<Submitted>> {
        limited::submit(self.tasks, store, is_open).await
    }
}

impl Guarded for TakeTurn {
    fn access(&self) -> Access<'_> {
        let turn = &self.turn;
        let mut scopes: BTreeSet<Scope> = turn.commands.iter().map(scope).collect();
        scopes.extend(turn.term.map(|_| Scope::Admin));
        if turn.claim.is_some() || scopes.is_empty() {
            scopes.insert(Scope::Work);
        }
        let mut access = Access::of(Scopes::AllOf(scopes));
        let mut workers: BTreeSet<&WorkerId> = turn.commands.iter().filter_map(worker).collect();
        if let Some(claim) = &turn.claim {
            access = access.on(Subject::Queues(&claim.namespace, &claim.queues));
            workers.insert(&claim.worker);
        }
        access.subjects.extend(workers.iter().copied().map(Subject::Holder));
        access.proofs.extend(workers.into_iter().map(WorkerProof::Acts));
        let others = turn.commands.iter().filter(|command| !command.is_by_holder());
        access.subjects.extend(others.map(|command| Subject::Task(command.task())));
        access.audit.extend(turn.commands.iter().filter_map(audit));
        access
    }

    fn rename_actors(&mut self, name: &ActorName<'_>) {
        let acts = self.turn.commands.iter_mut().filter_map(by_mut);
        acts.for_each(|by| by.actor = name(by.actor.as_deref()));
    }
}

fn scope(command: &Command) -> Scope {
    match command {
        Command::Claim { .. }
        | Command::Start { .. }
        | Command::Report { .. }
        | Command::Finish { .. }
        | Command::Release { .. } => Scope::Work,
        Command::Cancel { .. }
        | Command::Retry { .. }
        | Command::Postpone { .. }
        | Command::Resolve { .. }
        | Command::Skip { .. }
        | Command::Promote { .. }
        | Command::Expire { .. }
        | Command::Delete { .. } => Scope::Admin,
    }
}

/// The worker that a command is of.
fn worker(command: &Command) -> Option<&WorkerId> {
    match command {
        Command::Claim { worker, .. } => Some(worker),
        Command::Start { token, .. }
        | Command::Report { token, .. }
        | Command::Finish { token, .. }
        | Command::Release { token, .. } => Some(&token.worker),
        Command::Cancel { .. }
        | Command::Retry { .. }
        | Command::Postpone { .. }
        | Command::Resolve { .. }
        | Command::Skip { .. }
        | Command::Promote { .. }
        | Command::Expire { .. }
        | Command::Delete { .. } => None,
    }
}

/// Who intervenes, if somebody does.
fn by_mut(command: &mut Command) -> Option<&mut By> {
    match command {
        Command::Cancel { by, .. }
        | Command::Retry { by, .. }
        | Command::Resolve { by, .. }
        | Command::Skip { by, .. } => Some(by),
        Command::Claim { .. }
        | Command::Start { .. }
        | Command::Report { .. }
        | Command::Finish { .. }
        | Command::Release { .. }
        | Command::Postpone { .. }
        | Command::Promote { .. }
        | Command::Expire { .. }
        | Command::Delete { .. } => None,
    }
}

fn audit(command: &Command) -> Option<AuditNote> {
    let (action, by) = match command {
        Command::Cancel { by, .. } => ("task.cancel", by.clone()),
        Command::Retry { by, .. } => ("task.retry", by.clone()),
        Command::Resolve { by, .. } => ("task.resolve", by.clone()),
        Command::Skip { by, .. } => ("task.skip", by.clone()),
        Command::Postpone { .. } => ("task.postpone", By::default()),
        Command::Promote { .. } => ("task.promote", By::default()),
        Command::Expire { .. } => ("task.expire", By::default()),
        Command::Delete { .. } => ("task.delete", By::default()),
        Command::Claim { .. }
        | Command::Start { .. }
        | Command::Report { .. }
        | Command::Finish { .. }
        | Command::Release { .. } => return None,
    };
    Some(AuditNote { action, subject: AuditSubject::Task(command.task()), by, namespace: None })
}

impl Guarded for Start {
    fn access(&self) -> Access<'_> {
        let workflow = &self.workflow;
        // One that takes over what another has done is an operator's.
        let access = if workflow.origin.is_some() || !workflow.carried.is_empty() {
            Access::admin()
        } else if workflow.parent.is_some() {
            Access::work()
        } else {
            Access::submit()
        };
        let access = match &workflow.parent {
            Some(token) => access.on(Subject::Holder(&token.worker)).proved(WorkerProof::Acts(&token.worker)),
            None => access,
        };
        let access = access.on(Subject::Start(workflow));
        match workflow.origin {
            Some(origin) => {
                let by = By { actor: workflow.actor.clone(), note: None };
                let access = access.on(Subject::WholeWorkflow(origin));
                access.audited_workflow("workflow.rerun", origin, by)
            }
            None => access,
        }
    }

    fn rename_actors(&mut self, name: &ActorName<'_>) {
        self.workflow.actor = name(self.workflow.actor.as_deref());
    }

    async fn run_limited(self, store: &dyn Store, is_open: &IsOpen<'_>) -> Result<Started> {
        limited::start(self.workflow, store, is_open).await
    }
}

impl Guarded for Steer {
    fn access(&self) -> Access<'_> {
        let action = match self.steering {
            Steering::Cancel => "workflow.cancel",
            Steering::Pause => "workflow.pause",
            Steering::Resume => "workflow.resume",
            Steering::Resolve => "workflow.resolve",
            Steering::GiveUp => "workflow.give_up",
            Steering::Move { .. } => "workflow.move",
        };
        let access = Access::admin().on(Subject::WholeWorkflow(self.workflow));
        access.audited_workflow(action, self.workflow, self.by.clone())
    }

    fn rename_actors(&mut self, name: &ActorName<'_>) {
        self.by.actor = name(self.by.actor.as_deref());
    }
}

impl Guarded for FireSchedule {
    fn access(&self) -> Access<'_> {
        let firing = &self.firing;
        let queues = firing.tasks.iter().map(|task| Subject::Queues(&task.namespace, from_ref(&task.queue)));
        let mut access = Access::admin();
        access.subjects.extend(queues);
        access.on(Subject::Schedule(&firing.namespace, &firing.name)).audited_in(
            "schedule.run",
            &firing.namespace,
            &firing.name,
        )
    }
}

impl Guarded for Register {
    fn access(&self) -> Access<'_> {
        let worker = &self.worker;
        // One that is there already is replaced.
        Access::work()
            .on(Subject::Queues(&worker.namespace, &worker.queues))
            .on(Subject::Worker(&worker.id))
            .proved(WorkerProof::Registers(&worker.id))
    }

    fn set_worker_secret(&mut self, secret: Option<SecretDigest>) {
        self.worker.secret = secret;
    }
}

impl Guarded for Heartbeat {
    fn access(&self) -> Access<'_> {
        Access::work().on(Subject::Holder(&self.worker)).proved(WorkerProof::Acts(&self.worker))
    }
}

impl Guarded for Deregister {
    fn access(&self) -> Access<'_> {
        Access::work().on(Subject::Worker(&self.worker)).proved(WorkerProof::Leaves(&self.worker))
    }
}

/// Why no caller leads.
const SERVERS_LEAD: &str = "a program that uses a server does not lead; the server does";

impl Guarded for Campaign {
    fn access(&self) -> Access<'_> {
        Access::of(Scopes::Nobody(SERVERS_LEAD))
    }
}

impl Guarded for Resign {
    fn access(&self) -> Access<'_> {
        Access::of(Scopes::Nobody(SERVERS_LEAD))
    }
}

impl Guarded for Reconcile {
    fn access(&self) -> Access<'_> {
        Access::admin().on(Subject::Everything).audited("tasks.reconcile", "all")
    }
}

impl Guarded for Prune {
    fn access(&self) -> Access<'_> {
        Access::admin().on(Subject::Everything).audited("tasks.prune", "all")
    }
}

impl Guarded for GetDue {
    fn access(&self) -> Access<'_> {
        // Nothing but the time.
        if self.limit == 0 { Access::open() } else { Access::read().on(Subject::Everything) }
    }
}

impl Guarded for ReadEvents {
    fn access(&self) -> Access<'_> {
        Access::read().on(Subject::EachNamespace)
    }

    fn filter(answer: &mut Events, is_open: &IsOpen<'_>) {
        answer.events.retain(|event| is_open(&event.namespace, &[]));
    }
}

impl Guarded for GetTask {
    fn access(&self) -> Access<'_> {
        Access::read().on(Subject::Task(self.id))
    }
}

impl Guarded for FindTask {
    fn access(&self) -> Access<'_> {
        Access::read().on(Subject::TaskByKey(&self.namespace, &self.kind, &self.key))
    }
}

impl Guarded for ListTasks {
    fn access(&self) -> Access<'_> {
        let filter = &self.filter;
        let access = match &filter.worker {
            Some(worker) => Access::worker_or_reader().proved(WorkerProof::IsRead(worker)),
            None => Access::read(),
        };
        access.on(match (&filter.queue, &filter.worker, &filter.namespace) {
            (Some(queue), _, Some(namespace)) => Subject::Queues(namespace, from_ref(queue)),
            (Some(queue), _, None) => Subject::QueueEverywhere(queue),
            (None, Some(worker), _) => Subject::Holder(worker),
            (None, None, Some(namespace)) => Subject::Namespace(namespace),
            (None, None, None) => Subject::EachNamespace,
        })
    }

    fn filter(answer: &mut Listing, is_open: &IsOpen<'_>) {
        answer.tasks.retain(|task| is_open(&task.spec.namespace, from_ref(&task.spec.queue)));
    }
}

impl Guarded for GetResults {
    fn access(&self) -> Access<'_> {
        Access::worker_or_reader().on(Subject::Results(&self.tasks))
    }
}

impl Guarded for GetFacts {
    fn access(&self) -> Access<'_> {
        Access::read().on(Subject::Task(self.id))
    }
}

impl Guarded for CountTasks {
    fn access(&self) -> Access<'_> {
        Access::read()
    }

    fn filter(answer: &mut Vec<Count>, is_open: &IsOpen<'_>) {
        answer.retain(|count| is_open(&count.namespace, from_ref(&count.queue)));
    }
}

impl Guarded for GetWorkflow {
    fn access(&self) -> Access<'_> {
        Access::worker_or_reader().on(Subject::Workflow(self.id))
    }
}

impl Guarded for FindWorkflow {
    fn access(&self) -> Access<'_> {
        Access::read().on(Subject::WorkflowByKey(&self.namespace, &self.name, &self.key))
    }
}

/// One namespace, or all of them.
fn in_namespace(namespace: Option<&Name>) -> Subject<'_> {
    namespace.map_or(Subject::Everything, Subject::Namespace)
}

impl Guarded for ListWorkflows {
    fn access(&self) -> Access<'_> {
        Access::read().on(self.filter.namespace.as_ref().map_or(Subject::EachNamespace, Subject::Namespace))
    }

    fn filter(answer: &mut WorkflowListing, is_open: &IsOpen<'_>) {
        answer.workflows.retain(|workflow| is_open(&workflow.namespace, &[]));
    }
}

impl Guarded for CountWorkflows {
    fn access(&self) -> Access<'_> {
        Access::read().on(Subject::EachNamespace)
    }

    fn filter(answer: &mut Vec<WorkflowCount>, is_open: &IsOpen<'_>) {
        answer.retain(|count| is_open(&count.namespace, &[]));
    }
}

impl Guarded for ListReadyWorkflows {
    fn access(&self) -> Access<'_> {
        Access::read().on(in_namespace(self.namespace.as_ref()))
    }
}

impl Guarded for GetActivity {
    fn access(&self) -> Access<'_> {
        Access::read().on(in_namespace(self.namespace.as_ref()))
    }
}

impl Guarded for ListSlowest {
    fn access(&self) -> Access<'_> {
        Access::read().on(in_namespace(self.wanted.namespace.as_ref()))
    }
}

impl Guarded for ListWorkers {
    fn access(&self) -> Access<'_> {
        Access::read()
    }

    fn filter(answer: &mut Vec<Worker>, is_open: &IsOpen<'_>) {
        // Servers take from no queue, and are of no namespace.
        answer.retain(|worker| !worker.queues.is_empty() && is_open(&worker.namespace, &worker.queues));
    }
}

impl Guarded for GetLeader {
    fn access(&self) -> Access<'_> {
        Access::read()
    }
}

impl Guarded for Describe {
    fn access(&self) -> Access<'_> {
        Access::worker_or_reader()
    }
}

impl Guarded for Pause {
    fn access(&self) -> Access<'_> {
        let action = if self.paused { "queue.pause" } else { "queue.resume" };
        Access::admin().on(Subject::Queues(&self.namespace, from_ref(&self.queue))).audited_in(
            action,
            &self.namespace,
            &self.queue,
        )
    }
}

impl Guarded for ListPaused {
    fn access(&self) -> Access<'_> {
        Access::read()
    }

    fn filter(answer: &mut Vec<(Name, Name)>, is_open: &IsOpen<'_>) {
        answer.retain(|(namespace, queue)| is_open(namespace, from_ref(queue)));
    }
}

impl Guarded for SetEntity {
    fn access(&self) -> Access<'_> {
        let action = if self.known { "entity.register" } else { "entity.forget" };
        let access = Access::admin().on(Subject::Namespace(&self.namespace));
        access.audited_as(action, &self.namespace, self.entity.to_string())
    }
}

impl Guarded for HasEntity {
    fn access(&self) -> Access<'_> {
        Access::read().on(Subject::Namespace(&self.namespace))
    }
}

impl Guarded for ListEntities {
    fn access(&self) -> Access<'_> {
        Access::read().on(Subject::Namespace(&self.namespace))
    }
}

impl Guarded for SetSchedule {
    fn access(&self) -> Access<'_> {
        let schedule = &self.schedule;
        Access::admin()
            .on(Subject::Queues(&schedule.namespace, from_ref(&schedule.template.task().queue)))
            // One that is there already is changed.
            .on(Subject::Schedule(&schedule.namespace, &schedule.name))
            .audited_in("schedule.set", &schedule.namespace, &schedule.name)
    }
}

impl Guarded for RemoveSchedule {
    fn access(&self) -> Access<'_> {
        Access::admin().on(Subject::Schedule(&self.namespace, &self.name)).audited_in(
            "schedule.remove",
            &self.namespace,
            &self.name,
        )
    }
}

impl Guarded for ListSchedules {
    fn access(&self) -> Access<'_> {
        Access::read()
    }

    fn filter(answer: &mut Vec<Schedule>, is_open: &IsOpen<'_>) {
        answer.retain(|one| is_open(&one.namespace, from_ref(&one.template.task().queue)));
    }
}

impl Guarded for Define {
    fn access(&self) -> Access<'_> {
        // The newest of a name is what others start, whatever queues it has.
        Access::admin().on(Subject::Namespace(&self.namespace)).audited_as(
            "definition.apply",
            &self.namespace,
            self.definition.name.to_string(),
        )
    }
}

impl Guarded for GetDefinition {
    fn access(&self) -> Access<'_> {
        Access::of(Scopes::AnyOf(&[Scope::Read, Scope::Submit, Scope::Work])).on(Subject::Definition(
            &self.namespace,
            &self.name,
            self.version.as_deref(),
        ))
    }
}

impl Guarded for ListDefinitions {
    fn access(&self) -> Access<'_> {
        Access::read().on(Subject::Namespace(&self.namespace))
    }
}

impl Guarded for PutAccessToken {
    fn access(&self) -> Access<'_> {
        let by = By { actor: self.token.created_by.clone(), note: None };
        let access = Access::admin().on(Subject::Everything);
        access.audited_by("token.create", self.token.name.to_string(), by)
    }

    fn rename_actors(&mut self, name: &ActorName<'_>) {
        self.token.created_by = name(self.token.created_by.as_deref());
    }
}

impl Guarded for ListAccessTokens {
    fn access(&self) -> Access<'_> {
        Access::admin().on(Subject::Everything)
    }
}

impl Guarded for HadAccessTokens {
    fn access(&self) -> Access<'_> {
        Access::admin().on(Subject::Everything)
    }
}

impl Guarded for RotateAccessToken {
    fn access(&self) -> Access<'_> {
        Access::admin().on(Subject::Everything).audited("token.rotate", self.name.to_string())
    }
}

impl Guarded for TouchAccessTokens {
    fn access(&self) -> Access<'_> {
        Access::of(Scopes::Nobody("a server records the use of tokens itself"))
    }
}

impl Guarded for RevokeAccessToken {
    fn access(&self) -> Access<'_> {
        Access::admin().on(Subject::Everything).audited("token.revoke", self.name.to_string())
    }
}

impl Guarded for Audit {
    fn access(&self) -> Access<'_> {
        Access::admin().on(Subject::Everything)
    }

    fn rename_actors(&mut self, name: &ActorName<'_>) {
        self.entry.actor = name(Some(&self.entry.actor)).unwrap_or_default();
    }
}

impl Guarded for ListAudit {
    fn access(&self) -> Access<'_> {
        Access::admin().on(Subject::EachNamespace)
    }

    fn filter(answer: &mut AuditListing, is_open: &IsOpen<'_>) {
        answer.entries.retain(|entry| entry.namespace.as_ref().is_some_and(|it| is_open(it, &[])));
    }
}
