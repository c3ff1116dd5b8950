//! What a verb needs of its caller, what it concerns, and what the audit log says: the words that the policy
//! is written in.

use std::collections::BTreeSet;

use windlass_core::access::Scope;
use windlass_core::{By, Name, NewWorkflow, SecretDigest, TaskId, WorkerId, WorkflowId};

use super::{Store, Verb};
use crate::error::Result;

/// What a verb needs, and what is written about it.
#[derive(Clone, PartialEq, Debug)]
pub struct Access<'a> {
    /// What the caller's token must be for.
    pub scopes: Scopes,
    /// What must be open to the caller, if its token is limited. Nothing, if everybody may see it or the
    /// answer is filtered.
    pub subjects: Vec<Subject<'a>>,
    /// The workers that the caller must prove to be, whatever its token.
    pub proofs: Vec<WorkerProof<'a>>,
    /// What the audit log says, before it is done.
    pub audit: Vec<AuditNote>,
}

/// What a token must be for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scopes {
    /// Any token will do.
    Open,
    /// One of these.
    AnyOf(&'static [Scope]),
    /// All of these.
    AllOf(BTreeSet<Scope>),
    /// No token: a server does this itself, for the reason given.
    Nobody(&'static str),
}

/// What a verb concerns, for tokens that are limited to some namespaces or queues.
#[derive(Clone, PartialEq, Debug)]
pub enum Subject<'a> {
    /// Something of no namespace, or of all.
    Everything,
    /// Something of a namespace, and of no queue or of all.
    Namespace(&'a Name),
    /// Something of every namespace, and of no queue or of all: what is of other namespaces is left out of
    /// the answer.
    EachNamespace,
    /// Something of these queues; all of them must be open.
    Queues(&'a Name, &'a [Name]),
    /// Something of a queue of this name, in every namespace: what is of other namespaces is left out of the
    /// answer.
    QueueEverywhere(&'a Name),
    /// Something of a namespace and a queue, at this place of a batch.
    InBatch(usize, &'a Name, &'a Name),
    /// A worker, if there is one of that name: what it takes from.
    Worker(&'a WorkerId),
    /// What a worker holds. It has to be known: nothing else says what it takes from.
    Holder(&'a WorkerId),
    /// A task, if there is one.
    Task(TaskId),
    /// The task that has a key, if there is one.
    TaskByKey(&'a Name, &'a Name, &'a str),
    /// What tasks have returned; of a step, that belongs to its workflow.
    Results(&'a [TaskId]),
    /// A schedule, if there is one of that name.
    Schedule(&'a Name, &'a Name),
    /// A workflow, if there is one.
    Workflow(WorkflowId),
    /// A workflow with all that it started, if there is one.
    WholeWorkflow(WorkflowId),
    /// The workflow that has a key, if there is one.
    WorkflowByKey(&'a Name, &'a Name, &'a str),
    /// A definition, if there is one of that name.
    Definition(&'a Name, &'a Name, Option<&'a str>),
    /// The start of a workflow, with all that it starts.
    Start(&'a NewWorkflow),
}

/// A worker that a verb names, and what proves that the caller may act for it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum WorkerProof<'a> {
    /// It registers. The caller brings a secret, and the store compares it with that of a worker of the same
    /// id.
    Registers(&'a WorkerId),
    /// It acts: its secret.
    Acts(&'a WorkerId),
    /// It leaves: its secret, or a token for admin.
    Leaves(&'a WorkerId),
    /// What it holds is read: its secret, or the scope `read`.
    IsRead(&'a WorkerId),
}

impl<'a> WorkerProof<'a> {
    /// The worker.
    #[must_use]
    pub fn worker(&self) -> &'a WorkerId {
        match *self {
            Self::Registers(worker) | Self::Acts(worker) | Self::Leaves(worker) | Self::IsRead(worker) => {
                worker
            }
        }
    }
}

/// What the audit log says about a verb.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditNote {
    /// What is done, such as `queue.pause`.
    pub action: &'static str,
    /// To what.
    pub subject: AuditSubject,
    /// By whom and why, if the verb says so.
    pub by: By,
    /// In which namespace, if it is in one and the verb says so.
    pub namespace: Option<Name>,
}

/// What an audit entry is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AuditSubject {
    /// Something that the verb names.
    Named(String),
    /// A task; one that is a step is called by its workflow and name, and the action is one on a step.
    Task(TaskId),
    /// A workflow.
    Workflow(WorkflowId),
}

impl<'a> Access<'a> {
    pub(super) fn of(scopes: Scopes) -> Self {
        Self { scopes, subjects: Vec::new(), proofs: Vec::new(), audit: Vec::new() }
    }

    pub(super) fn open() -> Self {
        Self::of(Scopes::Open)
    }

    pub(super) fn read() -> Self {
        Self::of(Scopes::AnyOf(&[Scope::Read]))
    }

    /// What a worker has to read so as to do its work: for that, being a worker is enough.
    pub(super) fn worker_or_reader() -> Self {
        Self::of(Scopes::AnyOf(&[Scope::Read, Scope::Work]))
    }

    pub(super) fn submit() -> Self {
        Self::of(Scopes::AnyOf(&[Scope::Submit]))
    }

    pub(super) fn work() -> Self {
        Self::of(Scopes::AnyOf(&[Scope::Work]))
    }

    pub(super) fn admin() -> Self {
        Self::of(Scopes::AnyOf(&[Scope::Admin]))
    }

    pub(super) fn on(mut self, subject: Subject<'a>) -> Self {
        self.subjects.push(subject);
        self
    }

    pub(super) fn proved(mut self, proof: WorkerProof<'a>) -> Self {
        self.proofs.push(proof);
        self
    }

    pub(super) fn audited(self, action: &'static str, subject: impl Into<String>) -> Self {
        self.audited_by(action, subject, By::default())
    }

    pub(super) fn audited_by(mut self, action: &'static str, subject: impl Into<String>, by: By) -> Self {
        let subject = AuditSubject::Named(subject.into());
        self.audit.push(AuditNote { action, subject, by, namespace: None });
        self
    }

    /// Audited as `NAMESPACE/NAME`.
    pub(super) fn audited_in(self, action: &'static str, namespace: &Name, name: &str) -> Self {
        self.audited_as(action, namespace, format!("{namespace}/{name}"))
    }

    /// Audited as something in a namespace.
    pub(super) fn audited_as(mut self, action: &'static str, namespace: &Name, subject: String) -> Self {
        let (subject, namespace) = (AuditSubject::Named(subject), Some(namespace.clone()));
        self.audit.push(AuditNote { action, subject, by: By::default(), namespace });
        self
    }

    pub(super) fn audited_workflow(mut self, action: &'static str, id: WorkflowId, by: By) -> Self {
        self.audit.push(AuditNote { action, subject: AuditSubject::Workflow(id), by, namespace: None });
        self
    }
}

/// The name that a caller acts under, given the one that it says it acts for.
pub type ActorName<'a> = dyn Fn(Option<&str>) -> Option<String> + Sync + 'a;

/// Whether rows of a namespace and these queues are open to a caller; without queues, rows of no queue.
pub type IsOpen<'a> = dyn Fn(&Name, &[Name]) -> bool + Sync + 'a;

/// Who may run a verb, on what, and what the audit log says.
pub trait Guarded {
    /// The scopes and subjects it needs, and its audit entries.
    fn access(&self) -> Access<'_>;

    /// Replaces the actors that it names: a caller acts under the name of its token.
    fn rename_actors(&mut self, _name: &ActorName<'_>) {}

    /// Sets the digest of the secret that the caller sent, if the verb keeps it.
    fn set_worker_secret(&mut self, _secret: Option<SecretDigest>) {}

    /// Runs it for a caller to whom not everything is open. Default: as for everybody.
    fn run_limited(
        self,
        store: &dyn Store,
        _is_open: &IsOpen<'_>,
    ) -> impl Future<Output = Result<<Self as Verb>::Answer>> + Send
    where
        Self: Verb,
    {
        self.run(store)
    }

    /// Removes rows that are closed to the caller.
    fn filter(_answer: &mut <Self as Verb>::Answer, _is_open: &IsOpen<'_>)
    where
        Self: Verb,
    {
    }
}
