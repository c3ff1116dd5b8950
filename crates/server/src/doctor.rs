//! `windlass doctor`: what is wrong with a store, and what to do about it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use windlass::{Command, Count, Due, Filter, Name, Page, Schedule, State, Store, Timestamp, Worker};

use crate::escape::plain;
use crate::session::Session;
use crate::show::Answer;

/// Find what is stuck or set dangerously, and say what to do about it
///
/// Looks and changes nothing. Ends with exit code 1 if it finds a problem.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  windlass doctor --store sqlite:windlass.db")]
pub(crate) struct DoctorArgs {
    /// An attempt that runs longer than this is worth a note
    #[arg(long, default_value = "1h", value_parser = crate::duration::parse)]
    long: Duration,
}

/// How late what is due may be before it is stuck.
const LATE: Duration = Duration::from_secs(60);

/// Rows looked at for one finding.
const ROWS: usize = 1_000;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Level {
    Fine,
    Note,
    Problem,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Note => "note",
            Self::Problem => "problem",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug)]
struct Finding {
    level: Level,
    what: String,
    advice: Option<String>,
}

#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn fine(&mut self, what: impl Into<String>) {
        self.0.push(Finding { level: Level::Fine, what: what.into(), advice: None });
    }

    fn note(&mut self, what: impl Into<String>, advice: impl Into<String>) {
        self.0.push(Finding { level: Level::Note, what: what.into(), advice: Some(advice.into()) });
    }

    fn problem(&mut self, what: impl Into<String>, advice: impl Into<String>) {
        self.0.push(Finding { level: Level::Problem, what: what.into(), advice: Some(advice.into()) });
    }
}

/// Looks at everything.
pub(crate) async fn run(session: &Session, args: &DoctorArgs) -> Result<Answer> {
    let store = &**session.open_existing().await?.store();
    let mut findings = Findings::default();
    let now = store.now().await?;
    let (workers, counts) = (store.workers().await?, store.counts().await?);
    settings(store, &mut findings).await?;
    let alive: Vec<&Worker> = workers.iter().filter(|worker| worker.is_alive(now)).collect();
    fleet(&workers, alive.len(), now, &mut findings);
    due(store, now, &mut findings).await?;
    handlers(&counts, &alive, &store.paused().await?, &mut findings);
    schedules(&store.schedules().await?, now, &mut findings);
    rows(store, now, args.long, &mut findings).await?;
    dead_letters(&counts, &mut findings);
    Ok(told(&findings.0))
}

fn told(findings: &[Finding]) -> Answer {
    let mut text = String::new();
    for Finding { level, what, advice } in findings {
        text += &format!("{:<8} {}\n", level.word(), plain(what));
        if let Some(advice) = advice {
            text += &format!("{:<8} → {}\n", "", plain(advice));
        }
    }
    let value = |finding: &Finding| json!({ "level": finding.level.word(), "what": finding.what, "advice": finding.advice });
    let worst = findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Fine);
    let problems = findings.iter().filter(|finding| finding.level == Level::Problem).count();
    let findings: Value = findings.iter().map(value).collect();
    let json = json!({ "level": worst.word(), "findings": findings });
    let failure = (problems > 0).then(|| format!("{problems} problem(s) found; the advice is beside each"));
    Answer::new(text, &json).but(failure)
}

/// What the store is and how it is set.
async fn settings(store: &dyn Store, findings: &mut Findings) -> Result<()> {
    for (name, value) in store.describe().await? {
        let what = format!("{name}: {value}");
        match (name, value.split(':').next()) {
            ("durability", Some("normal")) => findings.note(
                what,
                "the last tasks before a power cut may be lost; use the default durability if that matters",
            ),
            ("durability", Some("none")) => findings.note(what, "use sqlite:PATH to keep tasks"),
            _ => findings.fine(what),
        }
    }
    Ok(())
}

/// Who works.
fn fleet(workers: &[Worker], alive: usize, now: Timestamp, findings: &mut Findings) {
    match alive {
        0 => findings.note(
            "no worker is alive",
            "start one: windlass work --exec KIND=COMMAND, or a program with handlers",
        ),
        _ => findings.fine(format!("{alive} worker(s) alive")),
    }
    for worker in workers.iter().filter(|worker| !worker.is_alive(now)) {
        let silent = now.since(worker.heartbeat_at).as_secs();
        let what = format!("worker {} on {:?} has been silent for {silent} s", worker.id, worker.host);
        findings.note(
            what,
            "it was killed or cut off; a leader gives its tasks to others and forgets it after an hour",
        );
    }
}

/// What waits for a leader.
async fn due(store: &dyn Store, now: Timestamp, findings: &mut Findings) -> Result<()> {
    let Due { commands, .. } = store.due(ROWS).await?;
    let leads = store.leader().await?.filter(|leader| leader.until > now);
    let advice = match &leads {
        Some(leader) => format!("worker {} leads and should do it; look at its log", leader.holder),
        None => "no worker leads; start one that may (not --no-lead)".into(),
    };
    match &leads {
        Some(leader) => findings.fine(format!("worker {} leads (term {})", leader.holder, leader.term)),
        None if commands.is_empty() => findings.fine("nobody leads, and nothing waits for a leader"),
        None => findings.problem("nobody leads, and tasks wait for a leader", advice.clone()),
    }
    let stale: Vec<_> = commands.iter().filter(|command| matches!(command, Command::Expire { .. })).collect();
    if let Some(first) = stale.first() {
        let what =
            format!("{} stale lease(s): their workers are dead (task {} for one)", stale.len(), first.task());
        findings.problem(what, advice.clone());
    }
    let mut late = 0;
    let mut example = None;
    for command in commands.iter().filter(|command| matches!(command, Command::Promote { .. })) {
        let Some(facts) = store.facts(command.task()).await? else { continue };
        if facts.task.status.due_at.is_some_and(|due| now.since(due) > LATE) {
            late += 1;
            example.get_or_insert(command.task());
        }
    }
    if let Some(example) = example {
        let what =
            format!("{late} task(s) should have become pending over a minute ago (task {example} for one)");
        findings.problem(what, advice);
    }
    Ok(())
}

/// What nobody can run.
fn handlers(counts: &[Count], alive: &[&Worker], paused: &[(Name, Name)], findings: &mut Findings) {
    let mut missing: BTreeMap<(&Name, &Name, &Name), u64> = BTreeMap::new();
    for Count { namespace, queue, kind, state, tasks } in counts {
        let waits = !state.is_final() && !matches!(state, State::Claimed | State::Running);
        if waits && !alive.iter().any(|worker| worker.takes(namespace, queue, kind)) {
            *missing.entry((namespace, queue, kind)).or_default() += tasks;
        }
    }
    for ((namespace, queue, kind), tasks) in missing {
        let what = format!(
            "{tasks} task(s) of kind {:?} in queue {:?} of {:?}: no live worker takes them",
            &**kind, &**queue, &**namespace
        );
        findings.problem(what, "start a worker with a handler for that kind and queue");
    }
    for (namespace, queue) in paused {
        let here = |count: &&Count| {
            count.namespace == *namespace && count.queue == *queue && count.state == State::Pending
        };
        let waiting: u64 = counts.iter().filter(here).map(|count| count.tasks).sum();
        let what = format!("queue {:?} of {:?} is paused; {waiting} task(s) wait", &**queue, &**namespace);
        findings.note(what, format!("windlass queue resume {queue}"));
    }
}

/// Schedules that do not fire.
fn schedules(schedules: &[Schedule], now: Timestamp, findings: &mut Findings) {
    for Schedule { name, next_at, paused, error, .. } in schedules {
        if let Some(error) = error {
            findings.problem(
                format!("schedule {name:?}: {error}"),
                format!("correct it: windlass schedule set {name} …"),
            );
        }
        if !paused && now.since(*next_at) > LATE {
            let what = format!("schedule {name:?} should have fired at {next_at}");
            findings.problem(what, "start a worker that may lead");
        }
    }
}

/// Rows that cannot be read, and attempts that take long.
async fn rows(store: &dyn Store, now: Timestamp, long: Duration, findings: &mut Findings) -> Result<()> {
    let states = vec![State::Claimed, State::Running];
    let filter = Filter { states, updated_before: Some(now.minus(long)), ..Filter::default() };
    match store.tasks(filter, Page { limit: ROWS, oldest_first: true, after: None }).await {
        Ok(listing) => {
            for task in listing.tasks.iter().filter(|task| task.spec.timeout.is_none()).take(10) {
                let since =
                    task.status.started_at.or(task.status.claimed_at).unwrap_or(task.status.updated_at);
                let what =
                    format!("task {} ({}) runs since {since} and has no time limit", task.id, task.spec.kind);
                findings.note(
                    what,
                    format!(
                        "windlass task get {}; cancel it if it hangs, and give such tasks a timeout",
                        task.id
                    ),
                );
            }
        }
        Err(error) => findings.problem(
            format!("tasks in progress cannot be listed: {error}"),
            "use the version of windlass that wrote them",
        ),
    }
    if let Err(error) = store.tasks(Filter::default(), Page { limit: ROWS, ..Page::default() }).await {
        let what = format!("the newest tasks cannot be listed: {error}");
        findings.problem(what, "use the version of windlass that wrote them");
    }
    Ok(())
}

fn dead_letters(counts: &[Count], findings: &mut Findings) {
    let dead: u64 =
        counts.iter().filter(|count| count.state == State::DeadLetter).map(|count| count.tasks).sum();
    if dead > 0 {
        findings.note(
            format!("{dead} dead letter(s): tasks that used up their attempts"),
            "windlass task list --state dead_letter; then windlass task retry --all --state dead_letter --force",
        );
    }
}
