//! Programs as handlers: which ones a worker runs, with what, and how their attempts ended. `windlass work` is one such worker,
//! `windlass serve --work` another.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde_json::{Value, json};
use windlass::{
    Context, Invalid, Name, NewWorker, Next, Outcome, RUN, StopReason, TaskError, WORKFLOW, Windlass,
    WorkerBuilder, WorkerId, limits,
};

use crate::duration;
use crate::escape::plain;
use crate::exec::{self, Exec, Setup};
use crate::failure::Usage;
use crate::programs::Programs;
use crate::session::Session;
use crate::show::Answer;
use crate::teller::Teller;

/// Which programs a worker runs, as it is typed.
#[derive(Args, Clone, Debug)]
pub(crate) struct ProgramArgs {
    /// A kind and the shell command that does it; may be given several times
    #[arg(long = "exec", value_name = "KIND=COMMAND")]
    pub(super) exec: Vec<Exec>,
    /// Also start workflows that are steps of others; somebody must, or such steps wait
    #[arg(long)]
    workflows: bool,
    /// Also run the programs that steps of workflows are, whatever their definitions say, and start workflows that are steps
    #[arg(long)]
    run_steps: bool,
    /// Take from this queue; may be given several times
    #[arg(long = "queue", value_name = "QUEUE", default_value = "default", value_parser = Name::queue)]
    pub(super) queues: Vec<Name>,
    /// How many programs run at once
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pool: usize,
    /// Try again after this exit code too; may be given several times
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(i32).range(1..=255))]
    retry_on: Vec<i32>,
    /// How long a program may go on after it was asked to end
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = while_running)]
    patience: Duration,
}

pub(super) fn while_running(text: &str) -> Result<Duration, Invalid> {
    let given = duration::parse(text)?;
    if given > limits::TIMEOUT { Err(Invalid::new("duration", text, "at most 365d")) } else { Ok(given) }
}

/// Whether tasks of this kind are steps that need no handler but this program.
fn is_step(kind: &Name) -> bool {
    matches!(&**kind, RUN | WORKFLOW)
}

impl ProgramArgs {
    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.kinds().is_empty()
    }

    /// What the worker takes.
    pub(crate) fn kinds(&self) -> Vec<Name> {
        let steps: &[&str] = match (self.run_steps, self.workflows) {
            (true, _) => &[RUN, WORKFLOW],
            (false, true) => &[WORKFLOW],
            (false, false) => &[],
        };
        let execs = self.exec.iter().map(|exec| exec.kind.clone());
        execs.chain(steps.iter().map(|kind| Name::stored(kind))).collect()
    }

    /// Refuses what cannot be meant, before anything is opened.
    pub(crate) fn check(&self, dead_after: Duration) -> Result<()> {
        let kinds = self.kinds();
        if kinds.is_empty() {
            let told = "there is nothing to work on; say --exec 'KIND=COMMAND', --run-steps or --workflows";
            return Err(Usage::new(told).into());
        }
        if let Some(kind) =
            kinds.iter().enumerate().find_map(|(n, kind)| kinds[..n].contains(kind).then_some(kind))
        {
            let told = match (self.run_steps || self.workflows) && is_step(kind) {
                true => format!("--exec names the kind {:?}, which --run-steps does", &**kind),
                false => format!("--exec names the kind {:?} twice; a kind is done by one command", &**kind),
            };
            return Err(Usage::new(told).into());
        }
        let queues = self.queues.clone();
        NewWorker { queues, kinds, dead_after, ..NewWorker::new(windlass::worker_id()) }.check()?;
        Ok(())
    }

    /// Who works, and on what.
    pub(crate) fn greeting(&self, id: &WorkerId) -> String {
        let joined = |names: &[Name]| names.iter().map(|name| &**name).collect::<Vec<_>>().join(", ");
        format!("worker {id} takes {} from {}", joined(&self.kinds()), joined(&self.queues))
    }
}

/// How attempts ended.
#[derive(Debug, Default)]
struct Tally {
    completed: AtomicU64,
    failed: AtomicU64,
    other: AtomicU64,
}

/// What every attempt of a worker is run with.
#[derive(Debug)]
pub(crate) struct Workshop {
    commands: BTreeMap<Name, String>,
    setup: Setup,
    tally: Tally,
    teller: Teller,
    quiet: bool,
}

impl Workshop {
    /// Tells how each attempt ended, unless it is to be `quiet`.
    pub(crate) fn new(
        session: &Session,
        args: &ProgramArgs,
        teller: &Teller,
        quiet: bool,
    ) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            commands: args.exec.iter().map(|exec| (exec.kind.clone(), exec.command.clone())).collect(),
            setup: Setup {
                programs: Programs::new()?,
                again: args.retry_on.clone(),
                patience: args.patience,
                store: session.environment(),
                directory: None,
                lines: None,
            },
            tally: Tally::default(),
            teller: teller.clone(),
            quiet,
        }))
    }

    /// How many programs run.
    pub(crate) fn running(&self) -> usize {
        self.setup.programs.count()
    }

    /// Ends all programs at once; nothing is told of their attempts.
    pub(crate) fn kill_all(&self) {
        self.setup.programs.kill_all();
    }

    /// A worker to be that runs its programs.
    pub(crate) fn worker(self: &Arc<Self>, windlass: &Windlass, args: &ProgramArgs) -> WorkerBuilder {
        let mut worker = windlass
            .worker()
            .queues(args.queues.iter().map(|queue| &**queue))
            .pool(args.pool)
            // Programs that do not listen are killed here, and their end is still told.
            .patience(args.patience + exec::LINGER * 3);
        for kind in self.commands.keys() {
            worker = worker.handle_kind(kind, |_| async { Ok(Value::Null) });
        }
        if args.run_steps {
            worker = worker.handle_kind(RUN, |_| async { Ok(Value::Null) });
        }
        if args.run_steps || args.workflows {
            worker = worker.starts_workflows();
        }
        // Programs run around those handlers, not as them: a result is kept to the letter, which no `Value` could do.
        let workshop = self.clone();
        worker.around(move |context, next| workshop.clone().attempt(context, next))
    }

    /// Runs the program of a task; counts and tells how that ended.
    async fn attempt(self: Arc<Self>, context: Context, next: Next) -> Outcome {
        let begun = Instant::now();
        let kind = &context.task().spec.kind;
        let ended = match self.commands.get(kind) {
            Some(command) => exec::run(&context, command, &self.setup).await,
            None if &**kind == RUN => exec::run_step(&context, &self.setup).await,
            None => return next.run(context).await,
        };
        let outcome = ended.map_or_else(TaskError::outcome, |result| Outcome::Completed { result });
        let (counter, said) = self.tally.told(&context, &outcome);
        counter.fetch_add(1, Ordering::Relaxed);
        if !self.quiet {
            let (id, attempt, took) = (context.id(), context.attempt(), begun.elapsed().as_millis());
            self.teller.tell(format!("{id} {kind} attempt {attempt} {} ({took} ms)", plain(&said)));
        }
        outcome
    }

    /// How all attempts ended.
    pub(crate) fn answer(&self, id: &WorkerId) -> Answer {
        let Tally { completed, failed, other } = &self.tally;
        let [completed, failed, other] =
            [completed, failed, other].map(|number| number.load(Ordering::Relaxed));
        let text = format!("{completed} completed, {failed} failed attempts, {other} others\n");
        let json =
            json!({ "worker_id": id.as_str(), "completed": completed, "failed": failed, "other": other });
        Answer::new(text, &json)
    }
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
}
