//! `windlass backup` and `windlass restore`: verified copies of a SQLite store, made while it is in use.

pub(crate) mod draft;
pub(crate) mod restore;
pub(crate) mod scheduled;

use std::io::{IsTerminal, Write, stderr, stdout};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use serde_json::{Value, json};
use windlass::Timestamp;
use windlass_store::sqlite::backup::{Contents, Copied};

use crate::address::{is_postgres, sqlite_path};
use crate::failure::{Interrupted, Usage};
use crate::moment;
use crate::progress::Progress;
use crate::session::Session;
use crate::show::Answer;
use crate::signals::Signals;
use draft::Draft;

/// Copy a SQLite store, which may be in use, to a file
///
/// Writers go on meanwhile. Everything that was acknowledged before the command began is in the copy. The
/// copy is checked before it gets its name; a file that exists is never overwritten. For a PostgreSQL store
/// use pg_dump; see docs/backup.md.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  windlass backup windlass-monday.db
  windlass backup --compress windlass-monday.db.gz
  windlass backup - | ssh vault 'cat > windlass-monday.db.gz'
  windlass --store sqlite:tasks.db backup /mnt/backup/tasks.db --json

Exit codes: 0 the backup is whole, 1 there is none, 130 interrupted.")]
pub(crate) struct BackupArgs {
    /// The file to write, which must not exist; - writes gzip to standard output
    #[arg(value_name = "TO")]
    to: String,
    /// Write gzip; implied if TO ends with .gz
    #[arg(long)]
    compress: bool,
}

/// A backup that was made.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// What the copied store holds.
    pub(crate) contents: Contents,
    /// What was acknowledged before is in it.
    pub(crate) taken_at: Timestamp,
    /// The size of what was written.
    pub(crate) written: u64,
}

impl Made {
    fn json(&self, path: &Path, compressed: bool) -> Value {
        let Self { contents: Contents { bytes, tasks, schema }, taken_at, written } = self;
        json!({ "path": path.display().to_string(), "taken_at": taken_at.to_string(), "bytes": written,
            "database_bytes": bytes, "compressed": compressed, "tasks": tasks, "schema_version": schema })
    }

    fn line(&self, path: &str) -> String {
        let Self { contents: Contents { bytes, tasks, .. }, taken_at, .. } = self;
        let at = moment::to_second(*taken_at);
        format!("{path} holds the store as of {at}: {tasks} tasks, {bytes} bytes, checked\n")
    }
}

/// How far a copy is, for the caller, which may stop it.
pub(crate) type Watch<'a> = &'a mut (dyn FnMut(&str, Copied) -> ControlFlow<()> + Send);

pub(crate) async fn run(session: &Session, args: &BackupArgs) -> Result<Answer> {
    let from = file_of(session, "backup copies a SQLite store")?;
    if !from.exists() {
        return Err(anyhow!("there is no database {}; --store names another", from.display()));
    }
    if args.to == "-" {
        return to_stdout(session, from).await;
    }
    let (to, compressed) = (PathBuf::from(&args.to), args.compress || args.to.ends_with(".gz"));
    refuse_existing(&to)?;
    let target = to.clone();
    let made = watched(move |watch| to_file(&from, &target, compressed, watch)).await?;
    Ok(Answer::new(made.line(&args.to), &made.json(&to, compressed)))
}

async fn to_stdout(session: &Session, from: PathBuf) -> Result<Answer> {
    if session.is_json() {
        return Err(Usage::new("--json and - both want standard output; name a file").into());
    }
    if stdout().is_terminal() {
        return Err(Usage::new("standard output is a terminal; send it to a file or a program").into());
    }
    let made = watched(move |watch| {
        let draft = Draft::in_directory(&std::env::temp_dir(), "backup")?;
        let (contents, taken_at) = draft.copy(&from, watch)?;
        let written = draft.compress_to(&mut stdout().lock(), watch).context("standard output")?;
        Ok(Made { contents, taken_at, written })
    });
    let made = made.await?;
    // Standard output is taken. If nobody reads this, the backup is whole all the same.
    let _ = write!(stderr(), "{}", made.line("standard output"));
    Ok(Answer::new("", &json!(null)))
}

/// Copies, verifies and compresses if that is asked for; only then the file gets its name.
pub(crate) fn to_file(from: &Path, to: &Path, compressed: bool, watch: Watch<'_>) -> Result<Made> {
    let draft = Draft::beside(to)?;
    let (contents, taken_at) = draft.copy(from, watch)?;
    let written = if compressed { draft.compress(watch)? } else { contents.bytes };
    draft.publish(to)?;
    Ok(Made { contents, taken_at, written })
}

/// The file of the store, or what to do instead.
fn file_of(session: &Session, what: &str) -> Result<PathBuf> {
    if let Some(namespace) = session.given_namespace() {
        let told = format!("a backup holds all namespaces; leave --namespace {namespace} out");
        return Err(Usage::new(told).into());
    }
    match sqlite_path(session.address()) {
        Some(path) => Ok(path.to_owned()),
        None if is_postgres(session.address()) => {
            let schema = session.postgres()?.get_schema().as_str().to_owned();
            Err(Usage::new(format!(
                "{what}; for PostgreSQL use `pg_dump --format=custom --schema={schema}` and pg_restore (docs/backup.md)"
            ))
            .into())
        }
        None => Err(Usage::new(format!("{what}; name one with --store sqlite:PATH")).into()),
    }
}

fn refuse_existing(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(_) => Err(anyhow!("{} exists, and nothing is overwritten; choose another name", path.display())),
        Err(_) => Ok(()),
    }
}

/// Does what blocks, shows how far it is, and stops it if the user wants that.
async fn watched<T: Send + 'static>(work: impl FnOnce(Watch<'_>) -> Result<T> + Send + 'static) -> Result<T> {
    let mut signals = Signals::listen()?;
    let stop = Arc::new(AtomicBool::new(false));
    let is_stopped = stop.clone();
    let mut working = tokio::task::spawn_blocking(move || {
        let mut progress = Progress::new("bytes");
        work(&mut |what, Copied { bytes, total }| {
            let percent = bytes.saturating_mul(100).checked_div(total).unwrap_or(100);
            progress.say(&format!("{what}: {percent} % of {total} bytes"));
            if is_stopped.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
    });
    tokio::select! {
        biased;
        done = &mut working => done.context("a bug stopped it; it was printed")?,
        () = signals.next() => {
            stop.store(true, Ordering::Relaxed);
            match working.await {
                Ok(Ok(done)) => Ok(done),
                _ => Err(Interrupted("interrupted; nothing is left of it".into()).into()),
            }
        }
    }
}
