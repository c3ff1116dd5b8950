//! `windlass serve`: a store as a service.

mod config;
mod listen;
mod predecessor;
mod tls;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use windlass::{DEAD_AFTER, RunningWorker};

use crate::address::{sqlite_path, without_password};
use crate::backup::scheduled::BackupPlan;
use crate::failure::Usage;
use crate::http::{self, App, Metrics};
use crate::session::Session;
use crate::show::Answer;
use crate::signals::Signals;
use crate::table::Table;
use crate::telemetry::Telemetry;
use crate::teller::Teller;
use crate::work::{ProgramArgs, Workshop};
use config::{Config, File, SettingArgs, Shown};
use listen::Listener;

/// How often a server says that it lives.
const BEAT: Duration = Duration::from_secs(10);

/// How often the store is told when tokens were last used.
const RECORD_USE: Duration = Duration::from_secs(60);

/// Serve tasks and workflows over HTTP until Ctrl-C
///
/// Workers in any language claim from it by long poll; see docs/http.md. It also does what the passing of
/// time asks for: retries, schedules, leases that ran out. Several servers on one PostgreSQL database are
/// equal.
///
/// With --work it is a worker as well, and runs programs for tasks as `windlass work` does.
///
/// Without tokens it serves this machine alone, and everybody on it; `windlass token create` makes the first.
///
/// Ctrl-C, or SIGTERM: no more connections, requests in progress may finish, those that wait for work are
/// answered at once.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  windlass serve
  windlass serve --store postgres://localhost/app --listen 0.0.0.0:7070 --tls-cert cert.pem --tls-key key.pem
  windlass serve --config /etc/windlass.toml --print-config
  windlass serve --keep completed=7d,failed=30d
  windlass serve --backup-to /mnt/backup --backup-every 1h --backup-keep 24 --backup-keep-for 7d
  windlass serve --work --exec 'email:send=./send.sh' --run-steps

Every setting is a flag, a variable of the environment (--max-body-bytes is WINDLASS_MAX_BODY_BYTES) and a key of the
file (max_body_bytes); the first that is there holds.

Exit codes: 0 stopped as asked, 1 it cannot serve, 2 not understood.")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    settings: SettingArgs,
    /// Serve this machine without tokens although the store had some, and all were revoked
    #[arg(long)]
    without_tokens: bool,
    /// Also work: run the programs that --exec, --run-steps and --workflows name
    #[arg(long)]
    work: bool,
    /// A file with settings, in TOML
    #[arg(long, value_name = "FILE", env = "WINDLASS_CONFIG")]
    config: Option<PathBuf>,
    /// Show all settings and where each comes from, and end
    #[arg(long)]
    print_config: bool,
    /// Show the description of all routes (OpenAPI 3.1), and end
    #[arg(long, conflicts_with = "print_config")]
    print_openapi: bool,
    #[command(flatten, next_help_heading = "With --work")]
    programs: ProgramArgs,
}

impl ServeArgs {
    /// Whether it is about a store.
    pub(crate) fn needs_store(&self) -> bool {
        !self.print_openapi
    }

    /// The store that the file names, unless a flag or the environment does.
    pub(crate) fn default_store(&self) -> Result<String> {
        let file = File::read(self.config.as_deref())?;
        Ok(file.get("store")?.unwrap_or_else(|| "sqlite:windlass.db".into()))
    }
}

pub(crate) async fn run(session: &Session, args: &ServeArgs) -> Result<Answer> {
    if args.print_openapi {
        let text = http::description();
        let json: serde_json::Value = serde_json::from_str(&text)?;
        return Ok(Answer::new(text, &json));
    }
    if session.given_namespace().is_some() {
        return Err(Usage::new("a server serves all namespaces; leave --namespace out").into());
    }
    if args.work {
        args.programs.check(DEAD_AFTER)?;
    } else if !args.programs.is_empty() {
        return Err(Usage::new("--exec, --run-steps and --workflows say what to work on; add --work").into());
    }
    let file = File::read(args.config.as_deref())?;
    let mut config = Config::read(&args.settings, &file, &|name| std::env::var(name).ok())?;
    config.limits.without_tokens = args.without_tokens;
    if args.print_config {
        return Ok(show(session, &file, &config));
    }
    let (signals, teller) = (Signals::listen()?, Teller::start()?);
    let log = teller.clone();
    let telemetry = Telemetry::start(move || log.clone())?;
    telemetry.remark().into_iter().for_each(|remark| teller.tell(remark));
    let served = serve(session, &config, args, signals, &teller).await;
    telemetry.end().await;
    teller.end().await;
    served
}

fn show(session: &Session, file: &File, config: &Config) -> Answer {
    let from = session.named_by().map_or_else(|| file.origin("store"), ToOwned::to_owned);
    let store = Shown { name: "store", value: without_password(session.address()), from };
    let mut table = Table::new(&["SETTING", "VALUE", "FROM"]);
    let all: Vec<&Shown> = std::iter::once(&store).chain(&config.shown).collect();
    for Shown { name, value, from } in &all {
        table.row([(*name).into(), (&**value).into(), (&**from).into()]);
    }
    Answer::new(table.render(session.paint(), ""), &json!({ "settings": all }))
}

async fn serve(
    session: &Session,
    config: &Config,
    args: &ServeArgs,
    mut signals: Signals,
    teller: &Teller,
) -> Result<Answer> {
    let backups = backups(session, config)?;
    let windlass = session.open().await?;
    let metrics = Metrics::install()?;
    let app = App::new(windlass.clone(), config.limits.clone(), metrics.clone());
    if !config.limits.open && !app.has_tokens().await? {
        return Err(anyhow!(
            "without tokens only this machine may be served, and {} is open to others; make a token with \
             `windlass token create`, or listen on 127.0.0.1",
            config.listen
        ));
    }
    let listener = Listener::bind(config).await?;
    let described = app.check_store().await?;
    let (address, scheme) = (listener.address()?, listener.scheme());
    let said: Vec<_> = described.iter().map(|(name, value)| format!("{name} {value}")).collect();
    teller.tell(format!("{}: {}", without_password(session.address()), said.join(", ")));
    if app.are_all_tokens_revoked().await? {
        teller.tell(
            "all tokens were revoked, so every request is refused; create one with `windlass token create`, or start with --without-tokens",
        );
    }
    teller.tell(format!("serving {scheme}://{address}"));
    let crew = Crew::start(session, config, args, teller).await?;
    let stop = CancellationToken::new();
    predecessor::follow(&**windlass.store(), app.id()).await;
    let leader = windlass.worker().id(app.id().clone()).retention(config.retention.clone());
    let mut parts = Parts {
        serving: tokio::spawn(listener.serve(http::router(&app), stop.clone())),
        living: tokio::spawn(live(app.clone(), metrics, stop.clone())),
        leading: tokio::spawn(leader.lead_until(stop.clone().cancelled_owned())),
    };
    let backing_up =
        backups.map(|(plan, path)| tokio::spawn(plan.follow(path, teller.clone(), stop.clone())));
    let missing = tokio::select! {
        biased;
        () = signals.next() => None,
        missing = parts.first_to_end() => Some(missing),
    };
    if let Some(missing) = missing {
        teller.tell(format!("{missing} has ended by itself, which is a fault"));
    }
    app.stop_waiting();
    stop.cancel();
    teller.tell("stopping: no more connections; Ctrl-C again ends at once");
    let ended = async {
        if let Some(crew) = &crew
            && let Err(error) = crew.worker.stop().await
        {
            warn!(%error, "the worker did not end as it should");
        }
        parts.end().await;
        if let Some(backing_up) = backing_up {
            let _ = backing_up.await;
        }
        if let Err(error) = app.record_token_use().await {
            warn!(%error, "the store does not know when tokens were last used");
        }
        app.farewell().await
    };
    tokio::select! {
        biased;
        farewell = ended => {
            if let Err(error) = farewell {
                warn!(%error, "this server will count as dead");
            }
        }
        () = signals.next() => {
            if let Some(crew) = &crew {
                crew.workshop.kill_all();
            }
        }
    }
    match missing {
        Some(missing) => {
            Err(anyhow!("{missing} has ended by itself; start the server again, and see what it said before"))
        }
        None => Ok(Answer::new("stopped\n", &json!({ "stopped": true }))),
    }
}

/// Which backups are made, and of which file.
fn backups(session: &Session, config: &Config) -> Result<Option<(BackupPlan, PathBuf)>> {
    let Some(plan) = config.backups.clone() else { return Ok(None) };
    let Some(path) = sqlite_path(session.address()) else {
        let told = "backup_to is for a SQLite store; back up PostgreSQL with pg_dump or a base backup (docs/backup.md)";
        return Err(Usage::new(told).into());
    };
    plan.prepare()?;
    Ok(Some((plan, path.to_owned())))
}

/// What runs in a server until it is told to stop.
struct Parts<T> {
    serving: JoinHandle<()>,
    living: JoinHandle<()>,
    leading: JoinHandle<T>,
}

impl<T> Parts<T> {
    /// What ends although it was not told to. A server in which something is missing is no use, and whoever
    /// watches the process can start it again.
    async fn first_to_end(&mut self) -> &'static str {
        tokio::select! {
            _ = &mut self.serving => "what serves requests",
            _ = &mut self.living => "what says that this server lives",
            _ = &mut self.leading => "what does chores",
        }
    }

    /// Waits until all have ended.
    async fn end(self) {
        let Self { serving, living, leading } = self;
        // One that has been waited for must not be waited for again.
        for part in [serving, living].into_iter().filter(|part| !part.is_finished()) {
            let _ = part.await;
        }
        if !leading.is_finished() {
            let _ = leading.await;
        }
    }
}

/// The worker in a server that works.
struct Crew {
    workshop: Arc<Workshop>,
    worker: RunningWorker,
}

impl Crew {
    /// Begins to work, if it is to.
    async fn start(
        session: &Session,
        config: &Config,
        args: &ServeArgs,
        teller: &Teller,
    ) -> Result<Option<Self>> {
        if !args.work {
            return Ok(None);
        }
        let workshop = Workshop::new(session, &args.programs, teller, false)?;
        let worker = workshop.worker(session.open().await?, &args.programs);
        // The server leads.
        let worker = worker.grace(config.drain).leads(false).start().await?;
        teller.tell(args.programs.greeting(worker.id()));
        Ok(Some(Self { workshop, worker }))
    }
}

/// Says again and again that this server lives.
async fn live(app: App, metrics: Metrics, stop: CancellationToken) {
    let mut recorded_at = Instant::now();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(BEAT) => {}
        }
        metrics.keep_up();
        if let Err(error) = app.beat().await {
            warn!(%error, "the store cannot be told that this server lives");
        }
        if recorded_at.elapsed() >= RECORD_USE {
            recorded_at = Instant::now();
            if let Err(error) = app.record_token_use().await {
                warn!(%error, "the store cannot be told when tokens were last used");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_part_that_dies_is_missed_and_the_others_are_waited_for() {
        for (which, missing) in
            ["serves requests", "this server lives", "does chores"].into_iter().enumerate()
        {
            let stop = CancellationToken::new();
            let part = |number: usize| {
                let (stop, dies) = (stop.clone(), number == which);
                tokio::spawn(async move {
                    assert!(!dies, "on purpose");
                    stop.cancelled().await;
                })
            };
            let mut parts = Parts { serving: part(0), living: part(1), leading: part(2) };
            assert!(parts.first_to_end().await.ends_with(missing));
            tokio::join!(parts.end(), async { stop.cancel() });
        }
    }
}
