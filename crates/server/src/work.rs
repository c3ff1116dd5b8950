//! `windlass work`: a worker whose handlers are programs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing_subscriber::filter::LevelFilter;
use windlass::{
    Context, Count, Invalid, Leadership, Name, NewWorker, Next, Outcome, RUN, Retention, State, StopReason,
    Store, TaskError, WORKFLOW, Windlass, WorkerBuilder, WorkerId, limits,
};

use crate::duration;
use crate::escape::plain;
use crate::exec::{self, Exec, Setup};
use crate::failure::Usage;
use crate::programs::Programs;
use crate::session::Session;
use crate::show::Answer;
use crate::signals::Signals;
use crate::teller::Teller;

/// How long a worker that is killed by its user tries to say that it is gone.
const FAREWELL: Duration = Duration::from_secs(1);

/// Run programs for tasks until Ctrl-C
///
/// A program is given the payload on its standard input, as JSON. What it writes to its standard output is the result: JSON if it is, text
/// otherwise. What it writes to its standard error is kept as the attempt's log. Exit code 0 means done, 75 try again, any other that it
/// failed for good (of a step whose workflow says `retry`, only 65 does); one that is killed is tried again. It is asked to end (SIGTERM), then killed, with all it started, when the task is
/// cancelled or out of time. What it started and left behind is killed when it ends.
///
/// Ctrl-C, or SIGTERM: no more tasks are taken, programs may end within the grace period, and what does not is stopped and given back.
/// Once more: everything is killed at once, and the tasks go to other workers.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  windlass work --exec 'email:send=./send.sh'
  windlass work --exec 'resize=./resize.py --half' --exec 'report=make -s report' --queue images --pool 4
  windlass work --exec 'report=python3 report.py' --retry-on 1 --drain
  windlass work --run-steps

The program finds WINDLASS_TASK_ID, WINDLASS_KIND, WINDLASS_ATTEMPT, WINDLASS_LEASE, WINDLASS_QUEUE,
WINDLASS_NAMESPACE, WINDLASS_ENTITY and WINDLASS_STORE in its environment; of a step also WINDLASS_WORKFLOW
and WINDLASS_STEP.

Exit codes: 0 stopped as asked or drained, 1 the store cannot be used, 2 not understood, 130 killed by a second Ctrl-C.")]
pub(crate) struct WorkArgs {
    /// A kind and the shell command that does it; may be given several times
    #[arg(long = "exec", value_name = "KIND=COMMAND", required_unless_present_any = ["workflows", "run_steps"])]
    exec: Vec<Exec>,
    /// Also start workflows that are steps of others; somebody must, or such steps wait
    #[arg(long)]
    workflows: bool,
    /// Also run the programs that steps of workflows are, whatever their definitions say, and start workflows that are steps
    #[arg(long)]
    run_steps: bool,
    /// Take from this queue; may be given several times
    #[arg(long = "queue", value_name = "QUEUE", default_value = "default", value_parser = Name::queue)]
    queues: Vec<Name>,
    /// How many programs run at once
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pool: usize,
    /// Try again after this exit code too; may be given several times
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(i32).range(1..=255))]
    retry_on: Vec<i32>,
    /// How long programs may go on after Ctrl-C
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = while_running)]
    grace: Duration,
    /// How long a program may go on after it was asked to end
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = while_running)]
    patience: Duration,
    /// How long this worker may be silent before others take its tasks
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = silence)]
    dead_after: Duration,
    /// Delete tasks in this final state after this long, such as completed=7d; may be given several times
    #[arg(long = "keep", value_name = "STATE=AGE", value_parser = crate::prune::keep)]
    keep: Vec<(State, Duration)>,
    /// Never become the leader, who promotes what is due; another worker has to
    #[arg(long)]
    no_lead: bool,
    /// End when nothing is left that this worker could do, now or later
    #[arg(long)]
    drain: bool,
    /// Say nothing about single tasks
    #[arg(long, short)]
    quiet: bool,
}

fn while_running(text: &str) -> Result<Duration, Invalid> {
    let given = duration::parse(text)?;
    if given > limits::TIMEOUT { Err(Invalid::new("duration", text, "at most 365d")) } else { Ok(given) }
}

/// Shorter than a second, a worker would be taken for dead whenever the disk is slow.
fn silence(text: &str) -> Result<Duration, Invalid> {
    let given = while_running(text)?;
    if given < Duration::from_secs(1) { Err(Invalid::new("silence", text, "1s or more")) } else { Ok(given) }
}

/// Whether tasks of this kind are steps that need no handler but this program.
fn is_step(kind: &Name) -> bool {
    matches!(&**kind, RUN | WORKFLOW)
}

impl WorkArgs {
    /// What this worker takes.
    fn kinds(&self) -> Vec<Name> {
        let steps: &[&str] = match (self.run_steps, self.workflows) {
            (true, _) => &[RUN, WORKFLOW],
            (false, true) => &[WORKFLOW],
            (false, false) => &[],
        };
        let execs = self.exec.iter().map(|exec| exec.kind.clone());
        execs.chain(steps.iter().map(|kind| Name::stored(kind))).collect()
    }

    /// Refuses what cannot be meant, before anything is opened.
    fn check(&self) -> Result<()> {
        let kinds = self.kinds();
        if let Some(kind) =
            kinds.iter().enumerate().find_map(|(n, kind)| kinds[..n].contains(kind).then_some(kind))
        {
            let told = match (self.run_steps || self.workflows) && is_step(kind) {
                true => format!("--exec names the kind {:?}, which --run-steps does", &**kind),
                false => format!("--exec names the kind {:?} twice; a kind is done by one command", &**kind),
            };
            return Err(Usage::new(told).into());
        }
        let (queues, dead_after) = (self.queues.clone(), self.dead_after);
        NewWorker { queues, kinds, dead_after, ..NewWorker::new(windlass::worker_id()) }.check()?;
        Ok(())
    }
}

/// How attempts ended.
#[derive(Debug, Default)]
struct Tally {
    completed: AtomicU64,
    failed: AtomicU64,
    other: AtomicU64,
}

/// What every attempt of this worker is run with.
#[derive(Debug)]
struct Workshop {
    commands: BTreeMap<Name, String>,
    setup: Setup,
    tally: Tally,
    teller: Teller,
    quiet: bool,
}

/// Works until a signal comes, or nothing is left.
pub(crate) async fn run(session: &Session, args: &WorkArgs) -> Result<Answer> {
    args.check()?;
    let (signals, teller) = (Signals::listen()?, Teller::start()?);
    let log = teller.clone();
    let logs = tracing_subscriber::fmt().with_max_level(LevelFilter::WARN);
    let _ = logs.with_ansi(false).with_target(false).with_writer(move || log.clone()).try_init();
    let worked = work(session, args, signals, &teller).await;
    teller.end().await;
    worked
}

async fn work(session: &Session, args: &WorkArgs, mut signals: Signals, teller: &Teller) -> Result<Answer> {
    let (windlass, namespace) = (session.open().await?, &session.namespace());
    let workshop = Arc::new(Workshop {
        commands: args.exec.iter().map(|exec| (exec.kind.clone(), exec.command.clone())).collect(),
        setup: Setup {
            programs: Programs::new()?,
            again: args.retry_on.clone(),
            patience: args.patience,
            store: exec::everywhere(session.address()),
            directory: None,
            lines: None,
        },
        tally: Tally::default(),
        teller: teller.clone(),
        quiet: args.quiet,
    });
    let builder = builder(windlass, args, namespace, &workshop)?;
    // Asked before there is work, so that nothing comes between.
    let described = windlass.store().describe().await?;
    let worker = builder.start().await?;
    greet(&described, args, worker.id(), teller);
    let idle = async {
        match args.drain {
            true => drained(&**windlass.store(), args, namespace).await,
            false => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        ended = worker.ended() => ended?,
        idle = idle => idle?,
        () = signals.next() => {
            let (running, grace) = (workshop.setup.programs.count(), duration::exact(args.grace));
            teller.tell(format!("stopping: {running} running, with {grace} to end; Ctrl-C again kills them"));
        }
    }
    tokio::select! {
        biased;
        stopped = worker.stop() => stopped?,
        () = signals.next() => {
            workshop.setup.programs.kill_all();
            let _ = timeout(FAREWELL, farewell(&**windlass.store(), worker.id())).await;
            teller.tell("killed; tasks in progress go to other workers");
            teller.end().await;
            std::process::exit(130);
        }
    }
    Ok(workshop.tally.answer(worker.id()))
}

/// Says who works, on what, and how safe that is.
fn greet(described: &[(&str, String)], args: &WorkArgs, id: &WorkerId, teller: &Teller) {
    let kinds = args.kinds();
    let kinds: Vec<&str> = kinds.iter().map(|kind| &**kind).collect();
    let queues: Vec<&str> = args.queues.iter().map(|queue| &**queue).collect();
    teller.tell(format!("worker {id} takes {} from {}", kinds.join(", "), queues.join(", ")));
    for (name, value) in described.iter().filter(|(name, _)| *name == "durability") {
        teller.tell(format!("{name} {value}"));
    }
}

/// Lets others take what this worker held, and lead, at once instead of when it counts as dead.
pub(crate) async fn farewell(store: &dyn Store, id: &WorkerId) -> Result<()> {
    if let Some(Leadership { term, .. }) = store.leader().await?.filter(|leader| leader.holder == *id) {
        store.resign(id, term).await?;
    }
    Ok(store.deregister(id).await?)
}

fn builder(
    windlass: &Windlass,
    args: &WorkArgs,
    namespace: &Name,
    workshop: &Arc<Workshop>,
) -> Result<WorkerBuilder> {
    let mut retention = Retention::default();
    for (state, age) in &args.keep {
        retention = retention.keep(*state, *age)?;
    }
    let mut worker = windlass
        .worker()
        .namespace(namespace.clone())
        .queues(args.queues.iter().map(|queue| &**queue))
        .pool(args.pool)
        .grace(args.grace)
        // Programs that do not listen are killed here, and their end is still told.
        .patience(args.patience + exec::LINGER * 3)
        .dead_after(args.dead_after)
        .leads(!args.no_lead)
        .retention(retention);
    for kind in workshop.commands.keys() {
        worker = worker.handle_kind(kind, |_| async { Ok(Value::Null) });
    }
    if args.run_steps {
        worker = worker.handle_kind(RUN, |_| async { Ok(Value::Null) });
    }
    if args.run_steps || args.workflows {
        worker = worker.starts_workflows();
    }
    // Programs run around those handlers, not as them: a result is kept to the letter, which no `Value` could do.
    let workshop = workshop.clone();
    Ok(worker.around(move |context, next| attempt(context, next, workshop.clone())))
}

/// Runs the program of a task; counts and tells how that ended.
async fn attempt(context: Context, next: Next, workshop: Arc<Workshop>) -> Outcome {
    let begun = Instant::now();
    let kind = &context.task().spec.kind;
    let ended = match workshop.commands.get(kind) {
        Some(command) => exec::run(&context, command, &workshop.setup).await,
        None if &**kind == RUN => exec::run_step(&context, &workshop.setup).await,
        None => return next.run(context).await,
    };
    let outcome = ended.map_or_else(TaskError::outcome, |result| Outcome::Completed { result });
    let Workshop { tally, teller, quiet, .. } = &*workshop;
    let (counter, said) = tally.told(&context, &outcome);
    counter.fetch_add(1, Ordering::Relaxed);
    if !quiet {
        let (id, attempt, took) = (context.id(), context.attempt(), begun.elapsed().as_millis());
        teller.tell(format!("{id} {kind} attempt {attempt} {} ({took} ms)", plain(&said)));
    }
    outcome
}

impl Tally {
    /// Which counter an end belongs to, and the end in words. What a program that was stopped says is not its own end.
    fn told(&self, context: &Context, outcome: &Outcome) -> (&AtomicU64, String) {
        let given_back = |why: &str| (&self.other, format!("given back: {why}"));
        match (context.stop_reason(), outcome) {
            (Some(StopReason::Cancelled), _) => (&self.other, "cancelled".into()),
            (Some(StopReason::LeaseLost), _) => (&self.other, "stopped: another worker may have it".into()),
            (Some(StopReason::TimedOut), _) => {
                let limit = context.task().spec.timeout.unwrap_or_default();
                (&self.failed, format!("failed: timed out after {}", duration::exact(limit)))
            }
            (_, Outcome::Completed { .. }) => (&self.completed, "completed".into()),
            (Some(StopReason::Shutdown), _) => given_back("the worker stops"),
            (Some(StopReason::Fenced), _) => given_back("the store cannot be reached"),
            (None, Outcome::Failed { error, .. }) => (&self.failed, format!("failed: {error}")),
            (None, Outcome::Snoozed { delay }) => {
                (&self.other, format!("put off for {}", duration::exact(*delay)))
            }
            (None, Outcome::Cancelled { note }) => (&self.other, format!("cancelled: {note}")),
            (None, Outcome::Skipped { note }) => (&self.other, format!("skipped: {note}")),
            (None, Outcome::Expanded { items, .. }) => (&self.other, format!("{} items", items.len())),
        }
    }

    fn answer(&self, id: &WorkerId) -> Answer {
        let [completed, failed, other] =
            [&self.completed, &self.failed, &self.other].map(|number| number.load(Ordering::Relaxed));
        let text = format!("{completed} completed, {failed} failed attempts, {other} others\n");
        let json =
            json!({ "worker_id": id.as_str(), "completed": completed, "failed": failed, "other": other });
        Answer::new(text, &json)
    }
}

/// Comes when nothing of the worker's kinds and queues is left that could be run, now or later.
async fn drained(store: &dyn Store, args: &WorkArgs, namespace: &Name) -> Result<()> {
    let (mut rings, kinds) = (store.watch(), args.kinds());
    loop {
        rings.borrow_and_update();
        let mine = |count: &&Count| {
            count.namespace == *namespace && args.queues.contains(&count.queue) && kinds.contains(&count.kind)
        };
        let counts = store.counts().await?;
        let can_go_on = |count: &&Count| !count.state.is_final() && count.state != State::Waiting;
        // A step that waits is only waited for while there is something whose end could let it go on.
        let is_waiting = counts.iter().filter(mine).any(|count| count.state == State::Waiting);
        let others =
            counts.iter().filter(|count| count.namespace == *namespace).any(|count| can_go_on(&count));
        let left = counts.iter().filter(mine).any(|count| can_go_on(&count)) || is_waiting && others;
        if !left {
            return Ok(());
        }
        // Looked at again when something happens; now and then in any case.
        let _ = timeout(Duration::from_secs(1), rings.changed()).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
