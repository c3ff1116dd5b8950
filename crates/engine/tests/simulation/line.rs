//! One process's line to the store: where calls are refused, held up, lost, and cut off with their process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use windlass::{
    AccessToken, Activity, AuditListing, By, Catalog, Command, Count, Defined, Definition, DefinitionLine,
    Due, Entity, Error, EventId, Events, Execution, Executions, Facts, Filter, Firing, Json, Leadership,
    Lease, Listing, Name, NewAuditEntry, NewSchedule, NewSecret, NewTask, NewWorker, NewWorkflow, Page,
    Pulse, Reads, ReadyWorkflow, Reconciled, Record, Retention, Rings, Schedule, Started, Steering, Store,
    StoredDefinition, Submitted, TaskId, Term, Timestamp, Turn, Turned, Worker, WorkerId, Workflow,
    WorkflowCount, WorkflowFilter, WorkflowId, WorkflowListing, WorkflowRecord, Writes,
};
use windlass_store::conformance::checker::{Answer, Op};

use super::book::short;
use super::process::Process;
use super::weather::Fault;
use super::world::World;

type Result<T, E = Error> = std::result::Result<T, E>;

/// Calls that change nothing: about them nothing can be unknown.
const READS: &[&str] = &[
    "workers",
    "leader",
    "due",
    "task",
    "find",
    "tasks",
    "counts",
    "facts",
    "definition",
    "definitions",
    "workflow",
    "find_workflow",
    "workflows",
    "results",
    "workflow_counts",
    "ready_workflows",
    "activity",
    "executions",
    "paused",
    "has_entity",
    "entities",
    "schedules",
    "events",
    "access_tokens",
    "had_access_tokens",
    "audits",
    "describe",
];

/// A store as one process has it.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Process>,
}

impl Line {
    /// The line of `process`.
    pub(crate) fn new(world: &Arc<World>, process: &Arc<Process>) -> Self {
        Self { world: world.clone(), process: process.clone() }
    }

    /// Makes a call, with whatever happens to it. `effect` is what it does, and is done where it is awaited.
    async fn call<T: Send + 'static>(
        &self,
        verb: &'static str,
        what: &str,
        show: impl Fn(&T) -> String + Send,
        effect: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let Self { world, process } = self;
        if !world.is_bearable(&process.name, verb) {
            return std::future::pending().await;
        }
        process.awake().await;
        let fault = process.weather().next(verb);
        let lost = || match READS.contains(&verb) {
            true => Err(Error::Unavailable(format!("the answer to {verb} was lost"))),
            false => Err(Error::Unknown(format!("the answer to {verb} was lost"))),
        };
        if fault != Fault::None {
            world.trace(&process.name, &format!("{verb} {what} meets {fault:?}"));
            world.count(match fault {
                Fault::None => "calls",
                Fault::Refused(_) => "refused calls",
                Fault::Slow(_) => "slow answers",
                Fault::Lost(_) => "lost answers",
                Fault::Late(_) => "late calls",
                Fault::Ghost(_) => "ghosts",
            });
        }
        let answer = match fault {
            Fault::None => effect.await,
            Fault::Refused(after) => {
                pass(after).await;
                Err(Error::Unavailable(format!("{verb} did not get through")))
            }
            Fault::Slow(after) => {
                let answer = effect.await;
                pass(after).await;
                answer
            }
            Fault::Lost(after) => {
                drop(effect.await);
                pass(after).await;
                lost()
            }
            Fault::Late(before) => {
                let on_its_way = tokio::spawn(async move {
                    pass(before).await;
                    effect.await
                });
                on_its_way.await.unwrap()
            }
            Fault::Ghost(before) => {
                tokio::spawn(async move {
                    pass(before).await;
                    drop(effect.await);
                });
                lost()
            }
        };
        process.awake().await;
        if answer.as_ref().is_err_and(|error| error.rejected().is_none()) {
            self.in_vain(verb);
        }
        let shown = answer.as_ref().map_or_else(|error| format!("! {}", error.code()), show);
        world.trace(&process.name, &format!("{verb} {what} -> {shown}"));
        world.count("calls");
        answer
    }

    fn in_vain(&self, verb: &'static str) {
        if self.process.hammers(verb) {
            self.world.wrong(format!("{} hammers at the store: {verb}", self.process.name));
        }
    }

    /// A call of which nothing is to be told but that it was made.
    async fn plain<T: Send + 'static>(
        &self,
        verb: &'static str,
        effect: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let world = self.world.clone();
        self.call(verb, "", |_| "ok".into(), async move { world.other(effect).await }).await
    }

    fn invoke(&self, op: Op) -> u64 {
        let at = self.world.clock.true_time();
        self.world.book().invoke(at, &self.process.name, op)
    }

    fn end<A: Into<Answer>>(&self, number: u64, end: Result<A, &Error>) {
        let at = self.world.clock.true_time();
        self.world.book().end(at, &self.process.name, number, end);
    }
}

/// Lets time pass.
pub(crate) async fn pass(time: Duration) {
    // tidy: sleep, of virtual time, is what the simulation is made of.
    tokio::time::sleep(time).await;
}

fn shown(command: &Command) -> String {
    let task = short(command.task());
    match command {
        Command::Start { token, .. } => format!("start {task}.{}", token.lease),
        Command::Report { token, .. } => format!("report {task}.{}", token.lease),
        Command::Finish { token, outcome, .. } => {
            format!("finish {task}.{} {}", token.lease, super::mirror::word(outcome))
        }
        Command::Release { token, note } => {
            format!("release {task}.{} ({})", token.lease, note.as_deref().unwrap_or_default())
        }
        Command::Claim { .. } => format!("claim {task}"),
        Command::Cancel { .. } => format!("cancel {task}"),
        Command::Retry { force, .. } => format!("retry {task} {force}"),
        Command::Postpone { delay, .. } => format!("postpone {task} {delay:?}"),
        Command::Resolve { .. } => format!("resolve {task}"),
        Command::Skip { .. } => format!("skip {task}"),
        Command::Promote { .. } => format!("promote {task}"),
        Command::Expire { lease, .. } => format!("expire {task}.{lease}"),
        Command::Delete { .. } => format!("delete {task}"),
    }
}

fn shown_turn(turn: &Turn) -> String {
    let commands: Vec<_> = turn.commands.iter().map(shown).collect();
    let claim = turn.claim.as_ref().map(|claim| format!("claim {}", claim.limit)).unwrap_or_default();
    format!("[{}] {claim}", commands.join(", "))
}

fn shown_turned(turned: &Turned) -> String {
    let receipts: Vec<_> = turned
        .receipts
        .iter()
        .map(|receipt| match receipt {
            Ok(receipt) if receipt.changed => receipt.state.word(),
            Ok(_) => "same",
            Err(rejected) => rejected.code(),
        })
        .collect();
    let claimed = match &turned.claimed {
        Ok(claimed) => {
            let name = |one: &windlass::Claimed| format!("{}.{}", short(one.task.id), one.task.status.lease);
            claimed.iter().map(name).collect::<Vec<_>>().join(" ")
        }
        Err(rejected) => format!("! {}", rejected.code()),
    };
    format!("[{}] {claimed}", receipts.join(", "))
}

fn shown_submitted(submitted: &[Submitted]) -> String {
    let name = |one: &Submitted| format!("{}{}", short(one.id), if one.created { "" } else { " existed" });
    submitted.iter().map(name).collect::<Vec<_>>().join(", ")
}

#[async_trait]
impl Writes for Line {
    async fn submit(&self, tasks: Vec<NewTask>) -> Result<Vec<Submitted>> {
        let (number, world) = (self.invoke(Op::submit(&tasks)), self.world.clone());
        let what = tasks.iter().map(|task| short(task.id)).collect::<Vec<_>>().join(", ");
        let effect = async move { world.submit(tasks).await };
        let answer = self.call("submit", &what, |all: &Vec<_>| shown_submitted(all), effect).await;
        self.end(number, answer.as_ref().map(Vec::as_slice));
        answer
    }

    async fn turn(&self, turn: Turn) -> Result<Turned> {
        let numbers: Vec<_> =
            turn.commands.iter().map(|command| Op::of(command).map(|op| self.invoke(op))).collect();
        let (world, process, what) = (self.world.clone(), self.process.clone(), shown_turn(&turn));
        let effect = async move { world.turn(&process, turn).await };
        let answer = self.call("turn", &what, shown_turned, effect).await;
        if answer.as_ref().is_ok_and(|turned| turned.claimed.is_err()) {
            self.in_vain("claim");
        }
        for (index, number) in numbers.into_iter().enumerate() {
            let Some(number) = number else { continue };
            match answer.as_ref().map(|turned| turned.receipts[index].clone()) {
                Ok(Ok(receipt)) => self.end(number, Ok(&receipt)),
                Ok(Err(rejected)) => self.end::<Answer>(number, Err(&rejected.into())),
                Err(error) => self.end::<Answer>(number, Err(error)),
            }
        }
        answer
    }

    async fn register(&self, worker: NewWorker) -> Result<Worker> {
        let store = self.world.store.clone();
        self.plain("register", async move { store.register(worker).await }).await
    }

    async fn heartbeat(&self, worker: WorkerId, held: Vec<(TaskId, Lease)>) -> Result<Pulse> {
        let (world, what) = (self.world.clone(), format!("{}", held.len()));
        let show = |pulse: &Pulse| {
            let names = |ids: &[TaskId]| ids.iter().map(|id| short(*id)).collect::<Vec<_>>().join(" ");
            format!("lost {}, cancelled {}", names(&pulse.lost), names(&pulse.cancelled))
        };
        self.call("heartbeat", &what, show, async move { world.heartbeat(&worker, held).await }).await
    }

    async fn deregister(&self, worker: WorkerId) -> Result<()> {
        let (world, process) = (self.world.clone(), self.process.clone());
        self.plain("deregister", async move { world.deregister(&process, &worker).await }).await
    }

    async fn campaign(&self, candidate: WorkerId, lease: Duration) -> Result<Option<Leadership>> {
        let world = self.world.clone();
        let show = |answer: &Option<Leadership>| format!("{:?}", answer.as_ref().map(|one| one.term));
        self.call("campaign", "", show, async move { world.campaign(&candidate, lease).await }).await
    }

    async fn resign(&self, candidate: WorkerId, term: Term) -> Result<()> {
        let store = self.world.store.clone();
        self.plain("resign", async move { store.resign(candidate.clone(), term).await }).await
    }

    async fn fire(&self, firing: Firing, term: Option<Term>) -> Result<Vec<Submitted>> {
        let (number, what) = (self.invoke(Op::submit(&firing.tasks)), firing.name.to_string());
        let (world, process) = (self.world.clone(), self.process.clone());
        let effect = async move { world.fire(&process, firing, term).await };
        let answer = self.call("fire", &what, |all: &Vec<_>| shown_submitted(all), effect).await;
        self.end(number, answer.as_ref().map(Vec::as_slice));
        answer
    }

    async fn start(&self, workflow: NewWorkflow) -> Result<Started> {
        let store = self.world.store.clone();
        self.plain("start", async move { store.start(workflow).await }).await
    }

    async fn steer(&self, workflow: WorkflowId, steering: Steering, by: By) -> Result<Workflow> {
        let store = self.world.store.clone();
        self.plain("steer", async move { store.steer(workflow, steering, by).await }).await
    }

    async fn reconcile(&self, after: Option<String>, limit: usize) -> Result<Reconciled> {
        let (store, world) = (self.world.store.clone(), self.world.clone());
        let effect = async move {
            let found = store.reconcile(after, limit).await?;
            if found.repaired > 0 {
                world.wrong(format!("I12: {} slots had not been given", found.repaired));
            }
            Ok(found)
        };
        self.plain("reconcile", effect).await
    }

    async fn prune(&self, retention: Retention, limit: usize) -> Result<usize> {
        let world = self.world.clone();
        let number = self.invoke(Op::Prune);
        let show = |pruned: &usize| pruned.to_string();
        let effect = async move {
            let pruned = world.store.prune(retention.clone(), limit).await?;
            world.book().tally.add("pruned", u64::try_from(pruned).unwrap());
            Ok(pruned)
        };
        let answer = self.call("prune", "", show, effect).await;
        self.end(number, answer.as_ref().map(|pruned| Answer::Pruned(*pruned)));
        answer
    }
}

#[async_trait]
impl Reads for Line {
    async fn workers(&self) -> Result<Vec<Worker>> {
        let store = self.world.store.clone();
        self.plain("workers", async move { store.workers().await }).await
    }

    async fn leader(&self) -> Result<Option<Leadership>> {
        let store = self.world.store.clone();
        self.plain("leader", async move { store.leader().await }).await
    }

    async fn due(&self, limit: usize) -> Result<Due> {
        let world = self.world.clone();
        let show = |due: &Due| format!("{} + {}", due.commands.len(), due.schedules.len());
        self.call("due", "", show, async move { world.due(limit).await }).await
    }

    async fn task(&self, id: TaskId) -> Result<Option<Record>> {
        let store = self.world.store.clone();
        let show = |record: &Option<Record>| {
            record.as_ref().map_or("none", |one| one.task.status.state.word()).into()
        };
        self.call("task", &short(id), show, async move { store.task(id).await }).await
    }

    async fn find(&self, namespace: Name, kind: Name, key: String) -> Result<Option<TaskId>> {
        let store = self.world.store.clone();
        self.plain("find", async move { store.find(namespace.clone(), kind.clone(), key.clone()).await })
            .await
    }

    async fn tasks(&self, filter: Filter, page: Page) -> Result<Listing> {
        let store = self.world.store.clone();
        let show = |listing: &Listing| format!("{}", listing.tasks.len());
        self.call("tasks", "", show, async move { store.tasks(filter, page).await }).await
    }

    async fn counts(&self) -> Result<Vec<Count>> {
        let store = self.world.store.clone();
        self.plain("counts", async move { store.counts().await }).await
    }

    async fn facts(&self, id: TaskId) -> Result<Option<Facts>> {
        let store = self.world.store.clone();
        self.plain("facts", async move { store.facts(id).await }).await
    }

    async fn workflow(&self, id: WorkflowId) -> Result<Option<WorkflowRecord>> {
        let store = self.world.store.clone();
        self.plain("workflow", async move { store.workflow(id).await }).await
    }

    async fn find_workflow(&self, namespace: Name, name: Name, key: String) -> Result<Option<WorkflowId>> {
        let store = self.world.store.clone();
        self.plain("find_workflow", async move {
            store.find_workflow(namespace.clone(), name.clone(), key.clone()).await
        })
        .await
    }

    async fn workflows(&self, filter: WorkflowFilter, page: Page) -> Result<WorkflowListing> {
        let store = self.world.store.clone();
        self.plain("workflows", async move { store.workflows(filter, page).await }).await
    }

    async fn results(&self, tasks: Vec<TaskId>) -> Result<Vec<Option<Json>>> {
        let store = self.world.store.clone();
        self.plain("results", async move { store.results(tasks).await }).await
    }

    async fn workflow_counts(&self) -> Result<Vec<WorkflowCount>> {
        let store = self.world.store.clone();
        self.plain("workflow_counts", async move { store.workflow_counts().await }).await
    }

    async fn ready_workflows(
        &self,
        namespace: Option<Name>,
        name: Option<Name>,
        limit: usize,
    ) -> Result<Vec<ReadyWorkflow>> {
        let store = self.world.store.clone();
        let answer = async move {
            store.ready_workflows(namespace.as_ref().cloned(), name.as_ref().cloned(), limit).await
        };
        self.plain("ready_workflows", answer).await
    }

    async fn activity(&self, since: Timestamp, namespace: Option<Name>) -> Result<Activity> {
        let store = self.world.store.clone();
        let answer = async move { store.activity(since, namespace.as_ref().cloned()).await };
        self.plain("activity", answer).await
    }

    async fn executions(&self, wanted: Executions) -> Result<Vec<Execution>> {
        let store = self.world.store.clone();
        self.plain("executions", async move { store.executions(wanted).await }).await
    }

    async fn describe(&self) -> Result<Vec<(String, String)>> {
        let store = self.world.store.clone();
        self.plain("describe", async move { store.describe().await }).await
    }

    async fn events(&self, after: Option<EventId>, limit: usize) -> Result<Events> {
        let store = self.world.store.clone();
        self.plain("events", async move { store.events(after, limit).await }).await
    }
}

#[async_trait]
impl Catalog for Line {
    async fn pause(&self, namespace: Name, queue: Name, paused: bool) -> Result<()> {
        let store = self.world.store.clone();
        self.plain("pause", async move { store.pause(namespace.clone(), queue.clone(), paused).await }).await
    }

    async fn paused(&self) -> Result<Vec<(Name, Name)>> {
        let store = self.world.store.clone();
        self.plain("paused", async move { store.paused().await }).await
    }

    async fn set_entity(&self, namespace: Name, entity: Entity, known: bool) -> Result<bool> {
        let store = self.world.store.clone();
        self.plain(
            "set_entity",
            async move { store.set_entity(namespace.clone(), entity.clone(), known).await },
        )
        .await
    }

    async fn has_entity(&self, namespace: Name, entity: Entity) -> Result<bool> {
        let store = self.world.store.clone();
        self.plain("has_entity", async move { store.has_entity(namespace.clone(), entity.clone()).await })
            .await
    }

    async fn entities(&self, namespace: Name, after: Option<Entity>, limit: usize) -> Result<Vec<Entity>> {
        let store = self.world.store.clone();
        self.plain("entities", async move {
            store.entities(namespace.clone(), after.as_ref().cloned(), limit).await
        })
        .await
    }

    async fn set_schedule(&self, schedule: NewSchedule) -> Result<Schedule> {
        let store = self.world.store.clone();
        self.plain("set_schedule", async move { store.set_schedule(schedule).await }).await
    }

    async fn remove_schedule(&self, namespace: Name, name: Name) -> Result<bool> {
        let store = self.world.store.clone();
        self.plain(
            "remove_schedule",
            async move { store.remove_schedule(namespace.clone(), name.clone()).await },
        )
        .await
    }

    async fn schedules(&self) -> Result<Vec<Schedule>> {
        let store = self.world.store.clone();
        self.plain("schedules", async move { store.schedules().await }).await
    }

    async fn define(&self, namespace: Name, definition: Definition) -> Result<Defined> {
        let store = self.world.store.clone();
        self.plain("define", async move { store.define(namespace.clone(), definition).await }).await
    }

    async fn definition(
        &self,
        namespace: Name,
        name: Name,
        version: Option<String>,
    ) -> Result<Option<StoredDefinition>> {
        let store = self.world.store.clone();
        let effect = async move { store.definition(namespace.clone(), name.clone(), version).await };
        self.plain("definition", effect).await
    }

    async fn definitions(&self, namespace: Name, name: Option<Name>) -> Result<Vec<DefinitionLine>> {
        let store = self.world.store.clone();
        self.plain("definitions", async move {
            store.definitions(namespace.clone(), name.as_ref().cloned()).await
        })
        .await
    }

    async fn put_access_token(&self, token: AccessToken) -> Result<()> {
        let store = self.world.store.clone();
        self.plain("put_access_token", async move { store.put_access_token(token).await }).await
    }

    async fn access_tokens(&self) -> Result<Vec<AccessToken>> {
        let store = self.world.store.clone();
        self.plain("access_tokens", async move { store.access_tokens().await }).await
    }

    async fn had_access_tokens(&self) -> Result<bool> {
        let store = self.world.store.clone();
        self.plain("had_access_tokens", async move { store.had_access_tokens().await }).await
    }

    async fn rotate_access_token(&self, name: Name, secret: NewSecret, keep: Duration) -> Result<bool> {
        let store = self.world.store.clone();
        let effect = async move { store.rotate_access_token(name.clone(), secret.clone(), keep).await };
        self.plain("rotate_access_token", effect).await
    }

    async fn touch_access_tokens(&self, used: Vec<(Name, Timestamp)>) -> Result<()> {
        let store = self.world.store.clone();
        self.plain("touch_access_tokens", async move { store.touch_access_tokens(used.clone()).await }).await
    }

    async fn revoke_access_token(&self, name: Name) -> Result<bool> {
        let store = self.world.store.clone();
        self.plain("revoke_access_token", async move { store.revoke_access_token(name.clone()).await }).await
    }

    async fn audit(&self, entry: NewAuditEntry) -> Result<()> {
        let store = self.world.store.clone();
        self.plain("audit", async move { store.audit(entry).await }).await
    }

    async fn audits(&self, page: Page) -> Result<AuditListing> {
        let store = self.world.store.clone();
        self.plain("audits", async move { store.audits(page).await }).await
    }
}

#[async_trait]
impl Store for Line {
    fn watch(&self) -> watch::Receiver<Rings> {
        self.world.listen(&self.process)
    }

    /// Half of the worlds have a store that does two turns of a worker at once.
    fn turns_at_once(&self) -> usize {
        if self.world.seed.is_multiple_of(2) { 1 } else { 2 }
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}
