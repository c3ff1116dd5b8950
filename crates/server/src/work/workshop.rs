//! Programs as handlers: which ones a worker runs, with what, and how their attempts ended. `windlass work`
//! is one such worker, `windlass serve --work` another.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde_json::{Value, json};
use windlass::{
    Context, Invalid, Lease, Name, NewWorker, Next, Outcome, RUN, RUN_AD_HOC, ReportResult, StopReason,
    TaskError, TaskId, WORKFLOW, Windlass, WorkerBuilder, WorkerId, limits,
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
    /// Also run the programs that steps of stored definitions are, whatever those say, and start workflows
    /// that are steps
    #[arg(long)]
    run_steps: bool,
    /// With --run-steps, also run the programs of workflows that were started with steps of their own:
    /// whoever may start those chooses the commands
    #[arg(long, requires = "run_steps")]
    run_ad_hoc: bool,
    /// Let programs find the store or server, and the token, in their environment: WINDLASS_STORE or
    /// WINDLASS_SERVER, and WINDLASS_TOKEN
    #[arg(long)]
    pass_store: bool,
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

/// What the kinds of steps that Windlass runs itself begin with.
const OWN_KINDS: &str = "windlass.";

impl ProgramArgs {
    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.kinds().is_empty()
    }

    /// What the worker takes.
    pub(crate) fn kinds(&self) -> Vec<Name> {
        let steps: &[&str] = match (self.run_steps, self.run_ad_hoc, self.workflows) {
            (true, true, _) => &[RUN, RUN_AD_HOC, WORKFLOW],
            (true, false, _) => &[RUN, WORKFLOW],
            (false, _, true) => &[WORKFLOW],
            (false, _, false) => &[],
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
        if let Some(Exec { kind, .. }) = self.exec.iter().find(|exec| exec.kind.starts_with(OWN_KINDS)) {
            // The command would complete a step whose own program never ran.
            let told = format!(
                "--exec cannot take the kind {:?}; kinds that begin with {OWN_KINDS:?} are steps of workflows: say --run-steps, or --workflows",
                &**kind
            );
            return Err(Usage::new(told).into());
        }
        if let Some(kind) =
            kinds.iter().enumerate().find_map(|(n, kind)| kinds[..n].contains(kind).then_some(kind))
        {
            let told = format!("--exec names the kind {:?} twice; a kind is done by one command", &**kind);
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

/// How attempts ended whose reports the store has accepted, or that needed none.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    completed: u64,
    failed: u64,
    other: u64,
}

/// What an attempt counts as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sort {
    Completed,
    Failed,
    Other,
}

/// An attempt that has ended and that the store has not been told of yet.
#[derive(Debug)]
struct Unreported {
    sort: Sort,
    /// What is told of it: `ID KIND attempt N completed`, and how long it took.
    said: String,
    took: String,
}

/// What is known of the attempts that have ended.
#[derive(Debug, Default)]
struct Ledger {
    tally: Tally,
    unreported: BTreeMap<(TaskId, Lease), Unreported>,
}

/// What every attempt of a worker is run with.
#[derive(Debug)]
pub(crate) struct Workshop {
    commands: BTreeMap<Name, String>,
    run_ad_hoc: bool,
    setup: Setup,
    ledger: Mutex<Ledger>,
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
            run_ad_hoc: args.run_ad_hoc,
            setup: Setup {
                programs: Programs::new()?,
                again: args.retry_on.clone(),
                patience: args.patience,
                environment: session.environment(args.pass_store),
                directory: None,
                lines: None,
            },
            ledger: Mutex::default(),
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
        if args.run_ad_hoc {
            worker = worker.handle_kind(RUN_AD_HOC, |_| async { Ok(Value::Null) });
        }
        if args.run_steps || args.workflows {
            worker = worker.starts_workflows();
        }
        // Programs run around those handlers, not as them: a result is kept to the letter, which no `Value`
        // could do.
        let (workshop, listener) = (self.clone(), self.clone());
        worker
            .around(move |context, next| workshop.clone().attempt(context, next))
            .on_report(move |task, lease, result| listener.reported((task, lease), result))
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the program of a task. How that ended is counted and told when the store knows of it.
    async fn attempt(self: Arc<Self>, context: Context, next: Next) -> Outcome {
        let begun = Instant::now();
        let kind = &context.task().spec.kind;
        let ended = match self.commands.get(kind) {
            Some(command) => exec::run(&context, command, &self.setup).await,
            None if **kind == *RUN && context.is_ad_hoc() && !self.run_ad_hoc => Err(not_mine(&context)),
            None if [RUN, RUN_AD_HOC].contains(&&**kind) => exec::run_step(&context, &self.setup).await,
            None => return next.run(context).await,
        };
        let outcome = ended.map_or_else(TaskError::outcome, |result| Outcome::Completed { result });
        let (sort, how) = told(&context, &outcome);
        let (id, attempt) = (context.id(), context.attempt());
        let said = format!("{id} {kind} attempt {attempt} {}", plain(&how));
        let took = format!("({} ms)", begun.elapsed().as_millis());
        self.ledger().unreported.insert((id, context.lease()), Unreported { sort, said, took });
        outcome
    }

    /// The store has accepted or refused what was reported of an attempt, or need not be told.
    fn reported(&self, claim: (TaskId, Lease), result: &ReportResult) {
        let mut ledger = self.ledger();
        let Some(Unreported { sort, said, took }) = ledger.unreported.remove(&claim) else { return };
        let Tally { completed, failed, other } = &mut ledger.tally;
        let (counter, remark) = match (sort, result) {
            (Sort::Other, _) => (other, String::new()),
            (_, ReportResult::Refused(rejected)) => {
                (other, format!(", but the report was refused: {rejected}"))
            }
            (_, ReportResult::Dropped) => (other, ", but another worker may have it".into()),
            (Sort::Completed, _) => (completed, String::new()),
            (Sort::Failed, _) => (failed, String::new()),
        };
        *counter += 1;
        drop(ledger);
        self.tell(&format!("{said}{} {took}", plain(&remark)));
    }

    fn tell(&self, line: &str) {
        if !self.quiet {
            self.teller.tell(line);
        }
    }

    /// How all attempts ended.
    pub(crate) fn answer(&self, id: &WorkerId) -> Answer {
        let Ledger { tally: Tally { completed, failed, other }, unreported } =
            std::mem::take(&mut *self.ledger());
        let not_reported = unreported.len();
        for Unreported { said, took, .. } in unreported.values() {
            self.tell(&format!("{said}, not reported {took}"));
        }
        let rest = if not_reported == 0 { String::new() } else { format!(", {not_reported} not reported") };
        let text = format!("{completed} completed, {failed} failed attempts, {other} others{rest}\n");
        let json = json!({
            "worker_id": id.as_str(), "completed": completed, "failed": failed, "other": other,
            "not_reported": not_reported,
        });
        Answer::new(text, &json)
    }
}

/// How long a step that this worker must not run waits for another.
const ANOTHER: Duration = Duration::from_secs(60);

/// Before ad hoc programs had a kind of their own, they had that of all programs: such a step may still be in
/// the store.
fn not_mine(context: &Context) -> TaskError {
    context.log(
        "put off: it is a program of an ad hoc workflow, which takes a worker with --run-steps --run-ad-hoc",
    );
    TaskError::snooze(ANOTHER)
}

/// What an end counts as, and the end in words. What a program that was stopped says is not its own end.
fn told(context: &Context, outcome: &Outcome) -> (Sort, String) {
    let given_back = |why: &str| (Sort::Other, format!("given back: {why}"));
    match (context.stop_reason(), outcome) {
        (Some(StopReason::Cancelled), _) => (Sort::Other, "cancelled".into()),
        (Some(StopReason::LeaseLost), _) => (Sort::Other, "stopped: another worker may have it".into()),
        (Some(StopReason::TimedOut), _) => {
            let limit = context.task().spec.timeout.unwrap_or_default();
            (Sort::Failed, format!("failed: timed out after {}", duration::exact(limit)))
        }
        (_, Outcome::Completed { .. }) => (Sort::Completed, "completed".into()),
        (Some(StopReason::Shutdown), _) => given_back("the worker stops"),
        (Some(StopReason::Fenced), _) => given_back("the store cannot be reached"),
        (None, Outcome::Failed { error, .. }) => (Sort::Failed, format!("failed: {error}")),
        (None, Outcome::Snoozed { delay }) => {
            (Sort::Other, format!("put off for {}", duration::exact(*delay)))
        }
        (None, Outcome::Cancelled { note }) => (Sort::Other, format!("cancelled: {note}")),
        (None, Outcome::Skipped { note }) => (Sort::Other, format!("skipped: {note}")),
        (None, Outcome::Expanded { items, .. }) => (Sort::Other, format!("{} items", items.len())),
    }
}
