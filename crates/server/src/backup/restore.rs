//! `windlass restore`.

use std::fs::File;
use std::io::{Read, stdin};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use serde_json::json;
use windlass_store::sqlite::backup::Contents;

use super::draft::{Draft, log_of};
use super::{file_of, refuse_existing, watched};
use crate::session::Session;
use crate::show::Answer;

/// Make a SQLite store from a backup
///
/// The backup is checked before the store gets its name; a store that exists is never overwritten. Tasks that
/// were running when the backup was taken run again. See docs/backup.md.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  windlass restore windlass-monday.db
  windlass --store sqlite:/srv/app/tasks.db restore /mnt/backup/tasks.db.gz
  ssh vault 'cat windlass-monday.db.gz' | windlass restore -

Exit codes: 0 the store is there, 1 it is not, 130 interrupted.")]
pub(crate) struct RestoreArgs {
    /// The backup, plain or gzip; - reads standard input
    #[arg(value_name = "FROM")]
    from: String,
}

pub(crate) async fn run(session: &Session, args: &RestoreArgs) -> Result<Answer> {
    let to = file_of(session, "restore makes a SQLite store")?;
    refuse_existing(&to)?;
    // The log of another store would be taken for this one's.
    if log_of(&to).exists() {
        let log = log_of(&to);
        return Err(anyhow!("{} is left from another store; move it away first", log.display()));
    }
    let (from, target) = (args.from.clone(), to.clone());
    let contents = watched(move |watch| {
        let draft = Draft::beside(&target)?;
        let path = (from != "-").then(|| PathBuf::from(&from));
        let (source, total) = open(path.as_deref())?;
        let contents = draft.take(source, path.as_deref(), total, watch)?;
        draft.publish(&target)?;
        Ok(contents)
    });
    let Contents { bytes, tasks, schema } = contents.await?;
    let text = format!("{} restored: {tasks} tasks, {bytes} bytes, checked\n", to.display());
    let json = json!({ "path": to.display().to_string(), "from": args.from, "bytes": bytes, "tasks": tasks,
        "schema_version": schema });
    Ok(Answer::new(text, &json))
}

/// What is restored, and its size if that is known.
fn open(path: Option<&Path>) -> Result<(Box<dyn Read>, u64)> {
    let Some(path) = path else { return Ok((Box::new(stdin().lock()), 0)) };
    let file = File::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let bytes = file.metadata()?.len();
    Ok((Box::new(file), bytes))
}
