//! `windlass work`: a worker whose handlers are programs.

mod workshop;

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use tokio::time::timeout;
use windlass::{Count, Invalid, Leadership, Name, Retention, State, Store, WorkerId};

use crate::duration;
use crate::failure::Usage;
use crate::session::Session;
use crate::show::Answer;
use crate::signals::Signals;
use crate::telemetry::Telemetry;
use crate::teller::Teller;
use workshop::while_running;
pub(crate) use workshop::{ProgramArgs, Workshop};

/// How long a worker that is killed by its user tries to say that it is gone.
const FAREWELL: Duration = Duration::from_secs(1);

/// Run programs for tasks until Ctrl-C
///
/// A program is given the payload on its standard input, as JSON. What it writes to its standard output is
/// the result: JSON if it is, text otherwise. What it writes to its standard error is kept as the attempt's
/// log. Exit code 0 means done, 75 try again, any other that it failed for good (of a step whose workflow
/// says `retry`, only 65 does); one that is killed is tried again. It is asked to end (SIGTERM), then killed,
/// with all it started, when the task is cancelled or out of time. What it started and left behind is killed
/// when it ends.
///
/// Ctrl-C, or SIGTERM: no more tasks are taken, programs may end within the grace period, and what does not
/// is stopped and given back. Once more: everything is killed at once, and the tasks go to other workers.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  windlass work --exec 'email:send=./send.sh'
  windlass work --exec 'resize=./resize.py --half' --exec 'report=make -s report' --queue images --pool 4
  windlass work --exec 'report=python3 report.py' --retry-on 1 --drain
  windlass work --run-steps

The program finds WINDLASS_TASK_ID, WINDLASS_KIND, WINDLASS_ATTEMPT, WINDLASS_LEASE, WINDLASS_QUEUE,
WINDLASS_NAMESPACE, WINDLASS_ENTITY and TRACEPARENT in its environment; of a step also WINDLASS_WORKFLOW and WINDLASS_STEP.
With --pass-store it also finds WINDLASS_STORE (or WINDLASS_SERVER) and WINDLASS_TOKEN, to submit what follows.

Exit codes: 0 stopped as asked or drained, 1 the store cannot be used, 2 not understood, 130 killed by a second Ctrl-C.")]
pub(crate) struct WorkArgs {
    #[command(flatten)]
    programs: ProgramArgs,
    /// How long programs may go on after Ctrl-C
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = while_running)]
    grace: Duration,
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

/// Shorter than a second, a worker would be taken for dead whenever the disk is slow.
fn silence(text: &str) -> Result<Duration, Invalid> {
    let given = while_running(text)?;
    if given < Duration::from_secs(1) { Err(Invalid::new("silence", text, "1s or more")) } else { Ok(given) }
}

/// Works until a signal comes, or nothing is left.
pub(crate) async fn run(session: &Session, args: &WorkArgs) -> Result<Answer> {
    args.programs.check(args.dead_after)?;
    if session.is_remote() && !args.keep.is_empty() {
        let told = "--keep is for a worker that may lead, and through a server none does; say it to `windlass serve`";
        return Err(Usage::new(told).into());
    }
    let (signals, teller) = (Signals::listen()?, Teller::start()?);
    let log = teller.clone();
    let telemetry = Telemetry::start(move || log.clone())?;
    telemetry.remark().into_iter().for_each(|remark| teller.tell(remark));
    let worked = work(session, args, signals, &teller).await;
    telemetry.end().await;
    teller.end().await;
    worked
}

async fn work(session: &Session, args: &WorkArgs, mut signals: Signals, teller: &Teller) -> Result<Answer> {
    let (windlass, namespace) = (session.open().await?, &session.namespace());
    let mut retention = Retention::default();
    for (state, age) in &args.keep {
        retention = retention.keep(*state, *age)?;
    }
    let workshop = Workshop::new(session, &args.programs, teller, args.quiet)?;
    let builder = workshop
        .worker(windlass, &args.programs)
        .namespace(namespace.clone())
        .grace(args.grace)
        .dead_after(args.dead_after)
        .leads(!args.no_lead)
        .retention(retention);
    // Asked before there is work, so that nothing comes between.
    let described = windlass.store().describe().await?;
    let worker = builder.start().await?;
    teller.tell(args.programs.greeting(worker.id()));
    for (name, value) in described.iter().filter(|(name, _)| *name == "durability") {
        teller.tell(format!("{name} {value}"));
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
        () = signals.next() => {
            let (running, grace) = (workshop.running(), duration::exact(args.grace));
            teller.tell(format!("stopping: {running} running, with {grace} to end; Ctrl-C again kills them"));
        }
    }
    tokio::select! {
        biased;
        stopped = worker.stop() => stopped?,
        () = signals.next() => {
            workshop.kill_all();
            let _ = timeout(FAREWELL, farewell(&**windlass.store(), worker.id())).await;
            teller.tell("killed; tasks in progress go to other workers");
            teller.end().await;
            std::process::exit(130);
        }
    }
    Ok(workshop.answer(worker.id()))
}

/// Lets others take what this worker held, and lead, at once instead of when it counts as dead.
pub(crate) async fn farewell(store: &dyn Store, id: &WorkerId) -> Result<()> {
    if let Some(Leadership { term, .. }) = store.leader().await?.filter(|leader| leader.holder == *id) {
        store.resign(id.clone(), term).await?;
    }
    Ok(store.deregister(id.clone()).await?)
}

/// Comes when nothing of the worker's kinds and queues is left that could be run, now or later.
async fn drained(store: &dyn Store, args: &WorkArgs, namespace: &Name) -> Result<()> {
    let (mut rings, kinds) = (store.watch(), args.programs.kinds());
    loop {
        rings.borrow_and_update();
        let mine = |count: &&Count| {
            count.namespace == *namespace
                && args.programs.queues.contains(&count.queue)
                && kinds.contains(&count.kind)
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
