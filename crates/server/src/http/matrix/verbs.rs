//! One call of `/v1/store`, or more, for each verb. A new verb needs a line here.

use std::time::Duration;

use serde_json::Value;
use windlass::access::Scope;
use windlass::verbs::{self, Call, ConnectionCall};
use windlass::{
    AccessToken, By, Claim, Command, Entity, Executions, Filter, Firing, Json, Missed, Name, NewAuditEntry,
    NewSchedule, NewSecret, NewTask, NewWorker, NewWorkflow, Overlap, Page, Source, Steering, TaskId,
    Template, Timestamp, Token, Turn, WorkerId, WorkflowFilter, WorkflowId,
};

use super::scene::Scene;

/// The place that is open to every token.
const OPEN: (&str, &str) = ("team-a", "mail-in");

/// What the calls are made of.
struct Names<'a>(&'a Scene);

impl Names<'_> {
    fn name(&self, word: &str) -> Name {
        Name::stored(self.0.word(word))
    }

    fn task(&self, word: &str) -> TaskId {
        self.0.word(word).parse().unwrap()
    }

    fn flow(&self, word: &str) -> WorkflowId {
        self.0.word(word).parse().unwrap()
    }

    fn worker(&self) -> WorkerId {
        WorkerId::new(self.0.word("WORKER")).unwrap()
    }

    fn entity(&self) -> Entity {
        self.0.word("ENTITY").parse().unwrap()
    }

    /// Of this place, or of one that is open.
    fn place(&self, here: bool) -> (Name, Name) {
        if here {
            (self.name("NS"), self.name("QUEUE"))
        } else {
            (Name::stored(OPEN.0), Name::stored(OPEN.1))
        }
    }

    fn new_task(&self, here: bool) -> NewTask {
        let (namespace, queue) = self.place(here);
        NewTask { namespace, queue, ..NewTask::new(windlass::task_id(), Name::stored("x"), Json::default()) }
    }

    fn new_worker(&self, id: &str, here: bool) -> NewWorker {
        let (namespace, queue) = self.place(here);
        let kinds = vec![Name::stored("none")];
        NewWorker { namespace, queues: vec![queue], kinds, ..NewWorker::new(WorkerId::new(id).unwrap()) }
    }

    fn schedule(&self, name: Name, here: bool) -> NewSchedule {
        NewSchedule {
            namespace: self.name("NS"),
            name,
            cron: "0 4 * * *".into(),
            zone: "UTC".into(),
            template: Template::new(NewTask { namespace: self.name("NS"), ..self.new_task(here) }),
            missed: Missed::default(),
            overlap: Overlap::default(),
            paused: None,
            next_at: Timestamp::MAX,
        }
    }

    fn firing(&self, here: bool) -> Firing {
        Firing {
            namespace: self.name("NS"),
            name: self.name("SCHEDULE"),
            expected: Timestamp::MAX,
            next_at: Timestamp::MAX,
            last_at: None,
            tasks: vec![self.new_task(here)],
            skipped: 0,
            left_out: None,
            error: None,
        }
    }

    fn start(&self, parent: Option<Token>, origin: Option<WorkflowId>) -> Call {
        let source = Source::Named { name: self.name("DEFINITION"), version: None };
        let new = NewWorkflow::new(windlass::workflow_id(), source, Json::default());
        verbs::Start { workflow: NewWorkflow { namespace: self.name("NS"), parent, origin, ..new } }.into()
    }

    fn claim(&self, here: bool) -> Call {
        let (namespace, queue) = self.place(here);
        let kinds = vec![Name::stored("none")];
        let claim = Claim { worker: self.worker(), namespace, queues: vec![queue], kinds, limit: 1 };
        verbs::TakeTurn { turn: Turn { claim: Some(claim), ..Turn::default() } }.into()
    }

    fn listed(&self, namespace: bool, queue: bool, worker: bool) -> Call {
        let filter = Filter {
            namespace: namespace.then(|| self.name("NS")),
            queue: queue.then(|| self.name("QUEUE")),
            worker: worker.then(|| self.worker()),
            ..Filter::default()
        };
        verbs::ListTasks { filter, page: Page::default() }.into()
    }
}

fn command(command: Command) -> Call {
    verbs::TakeTurn { turn: Turn { commands: vec![command], ..Turn::default() } }.into()
}

fn token() -> AccessToken {
    AccessToken {
        name: Name::stored("more"),
        id: "0123abcd".into(),
        digest: [0; 32],
        scopes: [Scope::Admin].into(),
        queues: Vec::new(),
        namespaces: Vec::new(),
        groups: Vec::new(),
        created_at: Timestamp::MIN,
        created_by: None,
        expires_at: None,
        previous: Vec::new(),
        last_used_at: None,
    }
}

/// Every call there is, about a place, and what sets it apart from others of the same verb.
pub(super) fn calls(scene: &Scene) -> Vec<(&'static str, Call)> {
    let names = Names(scene);
    let (namespace, queue) = names.place(true);
    let held = Token { task: names.task("HELD"), lease: 1, worker: names.worker() };
    let (task, flow, by, page) = (names.task("TASK"), names.flow("FLOW"), By::default, Page::default);
    let text = format!("name: e\nsteps: {{ a: {{ task: x, queue: {queue} }} }}");
    let definition = windlass::flow::read(&text).unwrap().into_blueprint().into_definition();
    let executions = |namespace| Executions {
        of_steps: true,
        since: Timestamp::MIN,
        limit: 1,
        namespace,
        name: None,
        version: None,
        together: None,
    };
    let entry = NewAuditEntry {
        actor: "a".into(),
        action: "b".into(),
        subject: "c".into(),
        reason: None,
        namespace: None,
    };
    let filter = |namespace| WorkflowFilter { namespace, ..WorkflowFilter::default() };
    let ready = |namespace| verbs::ListReadyWorkflows { namespace, name: None, limit: 1 }.into();
    let connection = Call::Connection;
    vec![
        // Writes.
        ("", verbs::Submit { tasks: vec![names.new_task(true)] }.into()),
        (
            "behind one that is open",
            verbs::Submit { tasks: vec![names.new_task(false), names.new_task(true)] }.into(),
        ),
        ("Claim", names.claim(true)),
        ("Claim for another's worker", names.claim(false)),
        ("Claim of a task", command(Command::Claim { task, worker: names.worker() })),
        ("Start", command(Command::Start { token: held.clone(), at: None })),
        ("Release", command(Command::Release { token: held.clone(), note: None })),
        ("Finish", {
            let outcome = windlass::Outcome::Completed { result: Json::default() };
            command(Command::Finish { token: held.clone(), outcome, started_at: None })
        }),
        ("Cancel", command(Command::Cancel { task, by: by() })),
        ("Retry", command(Command::Retry { task, force: false, by: by() })),
        ("Resolve", command(Command::Resolve { task, result: None, by: by() })),
        ("Skip", command(Command::Skip { task, by: by() })),
        ("Postpone", command(Command::Postpone { task, delay: Duration::ZERO })),
        ("Promote", command(Command::Promote { task })),
        ("Expire", command(Command::Expire { task: names.task("HELD"), lease: 1 })),
        ("Delete", command(Command::Delete { task })),
        ("a stored definition", names.start(None, None)),
        ("a run again", names.start(None, Some(names.flow("OVER")))),
        ("below a step that names another", names.start(Some(held), None)),
        ("", verbs::Steer { workflow: flow, steering: Steering::Pause, by: by() }.into()),
        ("", verbs::FireSchedule { firing: names.firing(true), term: None }.into()),
        (
            "with a task of an open queue",
            verbs::FireSchedule { firing: names.firing(false), term: None }.into(),
        ),
        ("", verbs::Register { worker: names.new_worker("new", true) }.into()),
        (
            "in the place of another",
            verbs::Register { worker: names.new_worker(scene.word("WORKER"), false) }.into(),
        ),
        ("", verbs::Heartbeat { worker: names.worker(), held: Vec::new() }.into()),
        ("", verbs::Deregister { worker: names.worker() }.into()),
        ("", verbs::Campaign { candidate: names.worker(), lease: Duration::from_secs(1) }.into()),
        ("", verbs::Resign { candidate: names.worker(), term: 1 }.into()),
        ("", verbs::Reconcile { after: None, limit: 1 }.into()),
        ("", verbs::Prune { retention: windlass::Retention::default(), limit: 1 }.into()),
        ("", verbs::Pause { namespace: namespace.clone(), queue, paused: true }.into()),
        (
            "",
            verbs::SetEntity { namespace: namespace.clone(), entity: "new:1".parse().unwrap(), known: true }
                .into(),
        ),
        ("a new one", verbs::SetSchedule { schedule: names.schedule(Name::stored("new"), true) }.into()),
        (
            "one that exists",
            verbs::SetSchedule { schedule: names.schedule(names.name("SCHEDULE"), false) }.into(),
        ),
        ("", verbs::RemoveSchedule { namespace: namespace.clone(), name: names.name("SCHEDULE") }.into()),
        ("", verbs::Define { namespace: namespace.clone(), definition }.into()),
        ("", verbs::PutAccessToken { token: token() }.into()),
        ("", {
            let secret = NewSecret { id: "01234567".into(), digest: [0; 32] };
            verbs::RotateAccessToken { name: Name::stored("token-0"), secret, keep: Duration::ZERO }.into()
        }),
        ("", verbs::TouchAccessTokens { used: Vec::new() }.into()),
        ("", verbs::RevokeAccessToken { name: Name::stored("token-0") }.into()),
        ("", verbs::Audit { entry }.into()),
        // Reads.
        ("hello", connection(ConnectionCall::Hello {})),
        ("get_workflow", connection(ConnectionCall::GetWorkflow { id: flow, known: None })),
        ("", verbs::Describe {}.into()),
        ("the time", verbs::GetDue { limit: 0 }.into()),
        ("", verbs::GetDue { limit: 1 }.into()),
        ("", verbs::ReadEvents { after: None, limit: 1 }.into()),
        ("", verbs::GetTask { id: task }.into()),
        ("of a step", verbs::GetTask { id: flow.step(0) }.into()),
        (
            "",
            verbs::FindTask {
                namespace: namespace.clone(),
                kind: Name::stored("x"),
                key: scene.word("KEY").into(),
            }
            .into(),
        ),
        ("", names.listed(false, false, false)),
        ("of a queue", names.listed(false, true, false)),
        ("of a namespace", names.listed(true, false, false)),
        ("of a queue in a namespace", names.listed(true, true, false)),
        ("of a worker", names.listed(false, false, true)),
        ("", verbs::GetResults { tasks: vec![names.task("HELD")] }.into()),
        ("of a step", verbs::GetResults { tasks: vec![flow.step(0)] }.into()),
        ("", verbs::GetFacts { id: task }.into()),
        ("of a step", verbs::GetFacts { id: flow.step(0) }.into()),
        ("", verbs::CountTasks {}.into()),
        ("", verbs::CountWorkflows {}.into()),
        ("", verbs::GetWorkflow { id: flow }.into()),
        (
            "",
            verbs::FindWorkflow {
                namespace: namespace.clone(),
                name: names.name("DEFINITION"),
                key: scene.word("KEY").into(),
            }
            .into(),
        ),
        ("", verbs::ListWorkflows { filter: filter(None), page: page() }.into()),
        (
            "of a namespace",
            verbs::ListWorkflows { filter: filter(Some(namespace.clone())), page: page() }.into(),
        ),
        ("", ready(None)),
        ("of a namespace", ready(Some(namespace.clone()))),
        ("", verbs::GetActivity { since: Timestamp::MIN, namespace: None }.into()),
        (
            "of a namespace",
            verbs::GetActivity { since: Timestamp::MIN, namespace: Some(namespace.clone()) }.into(),
        ),
        ("", verbs::ListSlowest { wanted: executions(None) }.into()),
        ("of a namespace", verbs::ListSlowest { wanted: executions(Some(namespace.clone())) }.into()),
        ("", verbs::ListWorkers {}.into()),
        ("", verbs::GetLeader {}.into()),
        ("", verbs::ListPaused {}.into()),
        ("", verbs::HasEntity { namespace: namespace.clone(), entity: names.entity() }.into()),
        ("", verbs::ListEntities { namespace: namespace.clone(), after: None, limit: 1 }.into()),
        ("", verbs::ListSchedules {}.into()),
        (
            "",
            verbs::GetDefinition {
                namespace: namespace.clone(),
                name: names.name("DEFINITION"),
                version: None,
            }
            .into(),
        ),
        ("", verbs::ListDefinitions { namespace, name: Some(names.name("DEFINITION")) }.into()),
        ("", verbs::HadAccessTokens {}.into()),
        ("", verbs::ListAccessTokens {}.into()),
        ("", verbs::ListAudit { page: page() }.into()),
    ]
}

/// What a verb is called.
pub(super) fn verb(call: &Call) -> String {
    let json = serde_json::to_value(call).unwrap();
    match json {
        Value::Object(fields) => fields.keys().next().unwrap().clone(),
        other => panic!("{other}"),
    }
}
