//! `windlass doctor`: what is wrong with a store, and what to do about it.

mod file;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use windlass::{
    Command, Count, Due, Error, Filter, Leadership, Name, Page, RUN, RUN_AD_HOC, Schedule, State, Store,
    Timestamp, WORKFLOW, Worker,
};

use crate::address::{sqlite_path, without_password};
use crate::escape::plain;
use crate::failure::Usage;
use crate::place::is_server;
use crate::session::Session;
use crate::show::Answer;

/// Find what is stuck or set dangerously, and say what to do about it
///
/// Looks at all namespaces and changes nothing.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  windlass doctor --store sqlite:windlass.db
  windlass doctor --deep --json

Exit codes: 0 no problem was found (there may be notes), 1 a problem was found or there is no such store, 2 not understood.")]
pub(crate) struct DoctorArgs {
    /// An attempt that runs longer than this is worth a note
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = crate::duration::parse)]
    long: Duration,
    /// Also read everything in a SQLite store: is the file whole, can every row be read, does every history
    /// lead to where its task is, do numbers agree with rows. Takes as long as reading all of it
    #[arg(long)]
    deep: bool,
}

/// How late what is due may be before it is stuck.
const LATE: Duration = Duration::from_secs(60);

/// How far ahead of the clock a row may be: clocks are corrected all the time.
const AHEAD: Duration = Duration::from_secs(5);

/// Rows looked at for one finding.
const ROWS: usize = 1_000;

/// Pages of tasks that are read only to see whether they can be.
const PAGES: usize = 100;

const UNREADABLE: &str =
    "use the version of windlass that wrote it; if that fails too, restore the database from a copy";

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

    /// What was read, or that it could not be.
    fn read<T: Default>(&mut self, what: &str, read: Result<T, Error>) -> T {
        read.unwrap_or_else(|error| {
            self.problem(format!("{what} cannot be read: {error}"), UNREADABLE);
            T::default()
        })
    }

    fn problem(&mut self, what: impl Into<String>, advice: impl Into<String>) {
        self.0.push(Finding { level: Level::Problem, what: what.into(), advice: Some(advice.into()) });
    }
}

/// Looks at everything.
pub(crate) async fn run(session: &Session, args: &DoctorArgs) -> Result<Answer> {
    if let Some(namespace) = session.given_namespace() {
        let told = format!("doctor looks at all namespaces; leave --namespace {namespace} out");
        return Err(Usage::new(told).into());
    }
    let mut findings = Findings::default();
    let path = sqlite_path(session.address()).filter(|path| path.exists());
    if args.deep && path.is_none() && !is_server(session.address()) {
        return Err(
            Usage::new("--deep is for a SQLite store that is there; PostgreSQL has pg_amcheck").into()
        );
    }
    if args.deep && is_server(session.address()) {
        return Err(Usage::new("--deep needs the store itself; name it with --store").into());
    }
    let opened = match is_behind(session, &mut findings).await {
        Ok(true) => return Ok(told(&findings.0)),
        Ok(false) => session.open_existing().await,
        Err(error) => Err(error),
    };
    let store = match opened {
        Ok(windlass) => &**windlass.store(),
        // What there is cannot be opened, and that is a finding.
        Err(error) if path.is_some() && error.is::<Error>() => {
            findings.problem(error.to_string(), UNREADABLE);
            return Ok(told(&findings.0));
        }
        Err(error) => return Err(error),
    };
    settings(store, &mut findings).await?;
    if let Some(path) = path {
        file::disk(path, &mut findings);
    }
    // First what is due, then the rest as it was at that moment, so that the findings fit together.
    let waiting = findings.read("what is due", store.due(ROWS).await);
    let now = if waiting == Due::default() { store.now().await? } else { waiting.now };
    let workers = findings.read("workers", store.workers().await);
    let counts = findings.read("the numbers of tasks", store.counts().await);
    let paused = findings.read("paused queues", store.paused().await);
    let schedules = findings.read("schedules", store.schedules().await);
    let alive: Vec<&Worker> = workers.iter().filter(|worker| worker.is_alive(now)).collect();
    fleet(&workers, alive.len(), now, &mut findings);
    let leads = leader(store, &alive, now).await?;
    due(store, &waiting.commands, &leads, now, &mut findings).await?;
    handlers(&counts, &alive, &paused, &mut findings);
    overdue(&schedules, &leads, now, &mut findings);
    long_attempts(store, now, args.long, &mut findings).await;
    from_the_future(store, &workers, &schedules, now, &mut findings).await;
    rows(store, &mut findings).await;
    if let Some(path) = path.filter(|_| args.deep) {
        file::deep(path, &mut findings).await?;
    }
    dead_letters(&counts, &mut findings);
    Ok(told(&findings.0))
}

/// Whether opening the database would change it, which is not for a doctor to do.
async fn is_behind(session: &Session, findings: &mut Findings) -> Result<bool> {
    let path = sqlite_path(session.address());
    if path.is_some_and(|path| !path.exists()) {
        return Ok(false);
    }
    let migrations = session.migrations().await?;
    let missing = migrations.iter().filter(|migration| migration.applied_at.is_none()).count();
    // A schema that is not there at all is not behind, and neither is it made by those who look.
    if missing == 0 || path.is_none() && missing == migrations.len() {
        return Ok(false);
    }
    let place = without_password(session.address());
    let place = path.map_or(place, |path| path.display().to_string());
    let what = format!("{place} is behind this version by {missing} migration(s)");
    findings.problem(what, "windlass migrate; take a copy first if you may want to go back");
    Ok(true)
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
    let told = store.describe().await?;
    // Of a server, the store behind it.
    let is_postgres = told.iter().any(|(name, value)| match &**name {
        "store" => value == "postgres",
        "behind it" => value.starts_with("store postgres"),
        _ => false,
    });
    for (name, value) in told {
        let what = format!("{name}: {value}");
        match (&*name, value.split(':').next().unwrap_or_default()) {
            ("durability", "normal") => findings.note(
                what,
                "the last tasks before a power cut may be lost; use the default durability if that matters",
            ),
            ("durability", "none") if is_postgres => {
                findings.problem(what, "switch fsync and full_page_writes on in postgresql.conf");
            }
            ("durability", "none") => findings.note(what, "use sqlite:PATH to keep tasks"),
            ("durability", "synchronous_commit is off") => findings.note(
                what,
                "ALTER ROLE … SET synchronous_commit = on for the role that windlass connects as, if that matters",
            ),
            ("wake-up", "notifications") => findings.fine(what),
            ("wake-up", _) => findings.note(
                what,
                "give the address of the server itself, or of a pooler in session mode, if a second matters",
            ),
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
    let silent = |worker: &Worker| now.since(worker.heartbeat_at).as_secs();
    let dead: Vec<&Worker> = workers.iter().filter(|worker| !worker.is_alive(now)).collect();
    let (Some(last), Some(first)) = (
        dead.iter().max_by_key(|worker| worker.heartbeat_at),
        dead.iter().map(|worker| silent(worker)).max(),
    ) else {
        return;
    };
    let one = format!("worker {} on {:?} has been silent for {} s", last.id, last.host, silent(last));
    match dead.len() {
        1 => findings.note(
            one,
            "it was killed or cut off; a leader gives its tasks to others and forgets it after an hour",
        ),
        count => findings.note(
            format!("{count} workers are silent, for up to {first} s; the last: {one}"),
            "they were killed or cut off; a leader gives their tasks to others and forgets them after an hour",
        ),
    }
}

/// What was written by a clock that was ahead of the present one.
async fn from_the_future(
    store: &dyn Store,
    workers: &[Worker],
    schedules: &[Schedule],
    now: Timestamp,
    findings: &mut Findings,
) {
    let newest = Page { limit: 100, oldest_first: false, after: None };
    // If they cannot be read, that is told elsewhere.
    let tasks = store.tasks(Filter::default(), newest).await.map(|listing| listing.tasks).unwrap_or_default();
    let ahead =
        |moments: Vec<Timestamp>| moments.into_iter().map(|at| at.since(now)).filter(|by| *by > AHEAD).max();
    let workers = ahead(workers.iter().map(|worker| worker.heartbeat_at).collect());
    let schedules = ahead(schedules.iter().map(|schedule| schedule.updated_at).collect());
    let tasks = ahead(tasks.iter().map(|task| task.status.updated_at).collect());
    let by = [workers, schedules, tasks].into_iter().flatten().max();
    if let Some(by) = by {
        let rows = [("workers", workers), ("schedules", schedules), ("tasks", tasks)];
        let rows: Vec<&str> = rows.iter().filter(|(_, by)| by.is_some()).map(|(name, _)| *name).collect();
        let (rows, by) = (rows.join(", "), crate::duration::rough(by));
        findings.problem(
            format!("the clock was set back: {rows} were written up to {by} from now"),
            "check the clock (timedatectl); a leader counts leases and retries anew, and what was submitted for a moment waits for it",
        );
    }
}

/// Whether what waits for a leader is waited for in vain.
enum Leads {
    /// A live worker leads.
    Yes(Leadership),
    /// The one that led is dead, but its term is not over.
    Died(Leadership),
    No,
}

impl Leads {
    fn advice(&self) -> String {
        match self {
            Self::Yes(Leadership { holder, .. }) => {
                format!("worker {holder} leads and should do it; look at its log")
            }
            Self::Died(Leadership { holder, until, .. }) => {
                format!(
                    "worker {holder} was killed while it led; another follows at {until}, if there is one that may (not --no-lead)"
                )
            }
            Self::No => "no worker leads; start one that may (not --no-lead)".into(),
        }
    }
}

async fn leader(store: &dyn Store, alive: &[&Worker], now: Timestamp) -> Result<Leads> {
    Ok(match store.leader().await?.filter(|leader| leader.until > now) {
        Some(leader) if alive.iter().any(|worker| worker.id == leader.holder) => Leads::Yes(leader),
        Some(leader) => Leads::Died(leader),
        None => Leads::No,
    })
}

/// What waits for a leader.
async fn due(
    store: &dyn Store,
    commands: &[Command],
    leads: &Leads,
    now: Timestamp,
    findings: &mut Findings,
) -> Result<()> {
    match leads {
        Leads::Yes(Leadership { holder, term, .. }) => {
            findings.fine(format!("worker {holder} leads (term {term})"));
        }
        _ if commands.is_empty() => findings.fine("nobody leads, and nothing waits for a leader"),
        _ => findings.problem("nobody leads, and tasks wait for a leader", leads.advice()),
    }
    let stale: Vec<_> = commands.iter().filter(|command| matches!(command, Command::Expire { .. })).collect();
    if let Some(first) = stale.first() {
        let what =
            format!("{} stale lease(s): their workers are dead (task {} for one)", stale.len(), first.task());
        findings.problem(what, leads.advice());
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
        findings.problem(what, leads.advice());
    }
    Ok(())
}

/// What nobody can run.
fn handlers(counts: &[Count], alive: &[&Worker], paused: &[(Name, Name)], findings: &mut Findings) {
    let mut missing: BTreeMap<(&Name, &Name, &Name), (u64, u64)> = BTreeMap::new();
    for Count { namespace, queue, kind, state, tasks, .. } in counts {
        let waits = !state.is_final() && !state.is_held();
        if waits && !alive.iter().any(|worker| worker.takes(namespace, queue, kind)) {
            let (now, later) = missing.entry((namespace, queue, kind)).or_default();
            *(if matches!(state, State::Scheduled | State::Waiting) { later } else { now }) += tasks;
        }
    }
    for ((namespace, queue, kind), (now, later)) in missing {
        let tasks = now + later;
        let what = format!(
            "{tasks} task(s) of kind {:?} in queue {:?} of {:?}: no live worker takes them",
            &**kind, &**queue, &**namespace
        );
        let takes = match &**kind {
            RUN => "--run-steps".into(),
            RUN_AD_HOC => "--run-steps --run-ad-hoc".into(),
            WORKFLOW => "--workflows".into(),
            kind => format!("--exec '{kind}=COMMAND'"),
        };
        let advice = format!("start one: windlass work {takes}{}", at(namespace, Some(queue)));
        match now {
            0 => findings.note(format!("{what}, and they are not due yet"), advice),
            _ => findings.problem(what, advice),
        }
    }
    for (namespace, queue) in paused {
        let here = |count: &&Count| {
            count.namespace == *namespace && count.queue == *queue && count.state == State::Pending
        };
        let waiting: u64 = counts.iter().filter(here).map(|count| count.tasks).sum();
        let what = format!("queue {:?} of {:?} is paused; {waiting} task(s) wait", &**queue, &**namespace);
        findings.note(what, format!("windlass queue resume {queue}{}", at(namespace, None)));
    }
}

/// The options that name a place, as far as it is not the default.
fn at(namespace: &Name, queue: Option<&Name>) -> String {
    let given = [("queue", queue), ("namespace", Some(namespace))].into_iter();
    let given = given.filter_map(|(option, name)| Some((option, name.filter(|name| ***name != *"default")?)));
    given.map(|(option, name)| format!(" --{option} {name}")).collect()
}

/// Schedules that do not fire.
fn overdue(schedules: &[Schedule], leads: &Leads, now: Timestamp, findings: &mut Findings) {
    for Schedule { namespace, name, next_at, paused, error, .. } in schedules {
        if let Some(error) = error {
            findings.problem(
                format!("schedule {:?}: {error}", &**name),
                format!("correct it: windlass schedule set {name} …{}", at(namespace, None)),
            );
        }
        if !paused && now.since(*next_at) > LATE {
            findings
                .problem(format!("schedule {:?} should have fired at {next_at}", &**name), leads.advice());
        }
    }
}

/// Attempts that take long and may take for ever.
async fn long_attempts(store: &dyn Store, now: Timestamp, long: Duration, findings: &mut Findings) {
    let states = vec![State::Claimed, State::Running];
    let filter = Filter { states, updated_before: Some(now.minus(long)), ..Filter::default() };
    let page = Page { limit: ROWS, oldest_first: true, after: None };
    let listing = findings.read("tasks in progress", store.tasks(filter, page).await);
    for task in listing.tasks.iter().filter(|task| task.spec.timeout.is_none()).take(10) {
        let (id, status) = (task.id, &task.status);
        let since = status.started_at.or(status.claimed_at).unwrap_or(status.updated_at);
        findings.note(
            format!("task {id} ({}) runs since {since} and has no time limit", task.spec.kind),
            format!("windlass task get {id}; cancel it if it hangs, and give such tasks a --timeout"),
        );
    }
}

/// Tasks that cannot be read, by this version or at all.
async fn rows(store: &dyn Store, findings: &mut Findings) {
    let (mut page, mut tasks) = (Page { limit: ROWS, ..Page::default() }, 0);
    for _ in 0..PAGES {
        match store.tasks(Filter::default(), page).await {
            Ok(listing) => {
                tasks += listing.tasks.len();
                page.after = listing.next;
            }
            Err(error) => {
                let what = format!("after {tasks} tasks, newest first, one cannot be read: {error}");
                return findings.problem(what, UNREADABLE);
            }
        }
        if page.after.is_none() {
            return findings.fine(format!("all {tasks} tasks can be read"));
        }
    }
    findings.fine(format!("the newest {tasks} tasks can be read"));
}

fn dead_letters(counts: &[Count], findings: &mut Findings) {
    let dead: u64 =
        counts.iter().filter(|count| count.state == State::DeadLetter).map(|count| count.tasks).sum();
    if dead > 0 {
        findings.note(
            format!("{dead} dead letter(s): tasks that used up their attempts"),
            "windlass task list --state dead_letter; then windlass task retry --all --state dead_letter",
        );
    }
}
