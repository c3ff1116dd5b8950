//! `windlass work`: a worker whose handlers are programs.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use serde_json::json;
use windlass::{Context, Count, Name, Next, Outcome, Retention, State, Store, Windlass, WorkerBuilder};

use crate::escape::plain;
use crate::exec::{self, Exec, Programs};
use crate::session::Session;
use crate::show::Answer;

/// Run programs for tasks until Ctrl-C
///
/// A program is given the payload on its standard input, as JSON. What it writes to its standard output is the result: JSON if it
/// is, text otherwise. What it writes to its standard error is kept as the attempt's log. Exit code 0 means done, 75 try again, any other that it
/// failed for good. It is asked to end (SIGTERM), then killed, with all it started, when the task is cancelled or out of time.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  windlass work --exec 'email:send=./send.sh'
  windlass work --exec 'resize=convert - -resize 50% -' --queue images --pool 4
  windlass work --exec 'report=python3 report.py' --retry-on 1 --drain

The program finds WINDLASS_TASK_ID, WINDLASS_KIND, WINDLASS_ATTEMPT, WINDLASS_LEASE, WINDLASS_QUEUE,
WINDLASS_NAMESPACE and WINDLASS_ENTITY in its environment.")]
pub(crate) struct WorkArgs {
    /// A kind and the shell command that does it; may be given several times
    #[arg(long = "exec", value_name = "KIND=COMMAND", required = true)]
    exec: Vec<Exec>,
    /// Take from this queue; may be given several times
    #[arg(long = "queue", default_value = "default", value_parser = Name::queue)]
    queues: Vec<Name>,
    /// How many programs run at once
    #[arg(long, default_value_t = 10)]
    pool: usize,
    /// Try again after this exit code too; may be given several times
    #[arg(long, value_name = "CODE")]
    retry_on: Vec<i32>,
    /// How long programs may go on after Ctrl-C
    #[arg(long, default_value = "30s", value_parser = crate::duration::parse)]
    grace: Duration,
    /// How long a program may go on after it was asked to end
    #[arg(long, default_value = "5s", value_parser = crate::duration::parse)]
    patience: Duration,
    /// How long this worker may be silent before others take its tasks
    #[arg(long, default_value = "30s", value_parser = crate::duration::parse)]
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

/// How attempts ended.
#[derive(Debug, Default)]
struct Tally {
    completed: AtomicU64,
    failed: AtomicU64,
    other: AtomicU64,
}

/// Works until a signal comes, or nothing is left.
pub(crate) async fn run(session: &Session, args: &WorkArgs) -> Result<Answer> {
    let (programs, tally) = (Programs::default(), Arc::new(Tally::default()));
    let (windlass, namespace) = (session.open().await?, &session.namespace());
    let worker = builder(windlass, args, namespace, &programs, &tally)?.start().await?;
    let kinds: Vec<&str> = args.exec.iter().map(|exec| &*exec.kind).collect();
    tell(&format!("worker {} takes {} from {}", worker.id(), kinds.join(", "), names(&args.queues)));
    for (name, value) in windlass.store().describe().await?.iter().filter(|(name, _)| *name == "durability") {
        tell(&format!("{name} {value}"));
    }
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
        () = signal() => tell("stopping: programs may end by themselves; once more to kill them"),
    }
    tokio::select! {
        biased;
        stopped = worker.stop() => stopped?,
        () = signal() => {
            programs.kill_all();
            tell("killed; tasks in progress go to others when this worker counts as dead");
            std::process::exit(130);
        }
    }
    let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
    let (completed, failed, other) = (count(&tally.completed), count(&tally.failed), count(&tally.other));
    let text = format!("{completed} completed, {failed} failed attempts, {other} others\n");
    let json = json!({ "worker_id": worker.id().as_str(), "completed": completed, "failed": failed, "other": other });
    Ok(Answer::new(text, &json))
}

fn builder(
    windlass: &Windlass,
    args: &WorkArgs,
    namespace: &Name,
    programs: &Programs,
    tally: &Arc<Tally>,
) -> Result<WorkerBuilder> {
    let mut retention = Retention::default();
    for (state, age) in &args.keep {
        retention = retention.keep(*state, *age)?;
    }
    let (quiet, tally) = (args.quiet, tally.clone());
    let mut worker = windlass
        .worker()
        .namespace(namespace.clone())
        .queues(args.queues.iter().map(|queue| &**queue))
        .pool(args.pool)
        .grace(args.grace)
        .patience(args.patience)
        .dead_after(args.dead_after)
        .leads(!args.no_lead)
        .retention(retention)
        .around(move |context, next| watched(context, next, tally.clone(), quiet));
    let again: Arc<[i32]> = args.retry_on.clone().into();
    for Exec { kind, command } in &args.exec {
        let (command, again, programs): (Arc<str>, _, _) =
            (command.as_str().into(), again.clone(), programs.clone());
        worker = worker.handle_kind(kind, move |context| {
            let (command, again, programs) = (command.clone(), again.clone(), programs.clone());
            async move { exec::run(context, &command, &again, programs).await }
        });
    }
    Ok(worker)
}

/// Counts and tells how an attempt ended.
async fn watched(context: Context, next: Next, tally: Arc<Tally>, quiet: bool) -> Outcome {
    let (id, kind, begun) = (context.id(), context.task().spec.kind.clone(), Instant::now());
    let attempt = context.attempt();
    let outcome = next.run(context).await;
    let (counter, said) = match &outcome {
        Outcome::Completed { .. } => (&tally.completed, "completed".into()),
        Outcome::Failed { error, .. } => (&tally.failed, format!("failed: {error}")),
        Outcome::Snoozed { delay } => (&tally.other, format!("snoozed for {delay:?}")),
        Outcome::Cancelled { note } => (&tally.other, format!("cancelled: {note}")),
    };
    counter.fetch_add(1, Ordering::Relaxed);
    if !quiet {
        let millis = begun.elapsed().as_millis();
        tell(&format!("{id} {kind} attempt {attempt} {} ({millis} ms)", plain(&said)));
    }
    outcome
}

/// Comes when nothing of the worker's kinds and queues is left that could be run, now or later.
async fn drained(store: &dyn Store, args: &WorkArgs, namespace: &Name) -> Result<()> {
    let kinds: BTreeSet<&Name> = args.exec.iter().map(|exec| &exec.kind).collect();
    let mut rings = store.watch();
    loop {
        rings.borrow_and_update();
        let mine = |count: &&Count| {
            count.namespace == *namespace && args.queues.contains(&count.queue) && kinds.contains(&count.kind)
        };
        let left = store.counts().await?.iter().filter(mine).any(|count| !count.state.is_final());
        if !left {
            return Ok(());
        }
        // Looked at again when something happens; now and then in any case.
        let _ = tokio::time::timeout(Duration::from_secs(1), rings.changed()).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Ctrl-C, or being asked to end.
async fn signal() {
    let terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
    let terminated = async {
        match terminated {
            Ok(mut signals) => signals.recv().await.map_or((), drop),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}

fn names(names: &[Name]) -> String {
    names.iter().map(|name| &**name).collect::<Vec<_>>().join(", ")
}

/// Tells a person what goes on.
fn tell(line: &str) {
    // Nobody may listen; that is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{line}");
}
