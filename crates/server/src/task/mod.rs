//! `windlass task`: looking at tasks and intervening.

mod filter;
mod operate;

use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Subcommand;
use serde_json::json;
use windlass::{Client, Cursor, Page, Record, TaskId, limits};

use crate::actor::ByArgs;
use crate::duration;
use crate::input::Source;
use crate::session::Session;
use crate::show::Answer;
use crate::show::attempt::{self, LogJson};
use crate::show::task::{RecordJson, TaskJson, page_of_step, table};
use filter::FilterArgs;
use operate::{Targets, Verb};

#[derive(Subcommand, Debug)]
pub(crate) enum TaskCommand {
    /// Show a task with its attempts and its history
    #[command(after_help = "Example:\n  windlass task get 01890a5d-ac96-774b-bcce-b302099a8057")]
    Get {
        /// The task's id
        id: TaskId,
    },
    /// List tasks, newest first
    #[command(after_help = "Examples:
  windlass task list --state failed,dead_letter
  windlass task list --kind email:send --queue emails --limit 20
  windlass task list --state running --unchanged-for 10m --oldest-first")]
    List {
        #[command(flatten)]
        filter: FilterArgs,
        /// How many at most, 1 to 1000
        #[arg(long, value_name = "N", default_value = "100", value_parser = limit)]
        limit: usize,
        /// Go on after an earlier page
        #[arg(long)]
        cursor: Option<Cursor>,
        /// Oldest first
        #[arg(long)]
        oldest_first: bool,
    },
    /// Print the lines that were kept with a task's attempts
    #[command(after_help = "Example:\n  windlass task log 01890a5d-ac96-774b-bcce-b302099a8057 --attempt 2")]
    Log {
        /// The task's id
        id: TaskId,
        /// Only of this attempt: 1, 2, 3 …
        #[arg(long, value_name = "N")]
        attempt: Option<u32>,
    },
    /// Stop tasks, wherever they are; a handler that runs one is told to stop
    #[command(after_help = "Examples:
  windlass task cancel 01890a5d-ac96-774b-bcce-b302099a8057 --reason 'not needed'
  windlass task cancel --all --kind report:make --state pending,scheduled --dry-run")]
    Cancel {
        #[command(flatten)]
        targets: Targets,
        #[command(flatten)]
        by: ByArgs,
    },
    /// Let tasks run now: failed, dead or cancelled ones again, waiting ones without their delay
    #[command(after_help = "Examples:
  windlass task retry 01890a5d-ac96-774b-bcce-b302099a8057 --force
  windlass task retry --all --state dead_letter --kind email:send --older-than 1h --dry-run")]
    Retry {
        #[command(flatten)]
        targets: Targets,
        /// Start over with all attempts, even if they are used up; --all --state dead_letter does so by
        /// itself
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        by: ByArgs,
    },
    /// Let a task that waits for a retry wait until so long from now, sooner or later than it would
    #[command(after_help = "Example:\n  windlass task postpone 01890a5d-ac96-774b-bcce-b302099a8057 2h")]
    Postpone {
        /// The task's id
        id: TaskId,
        /// How long, at most 30d; 0s is now
        #[arg(value_name = "DURATION", value_parser = delay)]
        delay: Duration,
    },
    /// Settle tasks by hand
    #[command(
        after_help = "Example:\n  windlass task resolve 01890a5d-ac96-774b-bcce-b302099a8057 --result '{\"sent\": true}'"
    )]
    Resolve {
        /// The tasks' ids
        #[arg(value_name = "ID", required = true)]
        ids: Vec<TaskId>,
        /// What they would have returned: JSON, @FILE, or - for standard input
        #[arg(long, value_name = "JSON", allow_negative_numbers = true)]
        result: Option<Source>,
        #[command(flatten)]
        by: ByArgs,
    },
    /// Delete final tasks, with their history and keys
    #[command(after_help = "Examples:
  windlass task delete 01890a5d-ac96-774b-bcce-b302099a8057
  windlass task delete --all --state dead_letter --older-than 30d")]
    Delete {
        #[command(flatten)]
        targets: Targets,
    },
}

/// A wait for a retry.
fn delay(text: &str) -> Result<Duration, String> {
    let delay = duration::parse(text).map_err(|invalid| invalid.to_string())?;
    let fits = delay <= limits::RETRY_AFTER;
    fits.then_some(delay).ok_or_else(|| format!("delay is {text:?}; expected at most 30d"))
}

/// A number of rows.
pub(crate) fn limit(text: &str) -> Result<usize, String> {
    let limit = text.parse().ok().filter(|limit| (1..=limits::PAGE).contains(limit));
    limit.ok_or_else(|| format!("limit is {text:?}; expected 1 to {}", limits::PAGE))
}

pub(crate) async fn run(session: &Session, command: &TaskCommand) -> Result<Answer> {
    match command {
        TaskCommand::Get { id } => get(session, *id).await,
        TaskCommand::Log { id, attempt } => log(session, *id, *attempt).await,
        TaskCommand::List { filter, limit, cursor, oldest_first } => {
            let page = Page { limit: *limit, after: *cursor, oldest_first: *oldest_first };
            list(session, filter, page).await
        }
        TaskCommand::Cancel { targets, by } => targets.apply(session, &Verb::Cancel(by.by())).await,
        TaskCommand::Retry { targets, force, by } => {
            targets.apply(session, &Verb::Retry { force: *force, by: by.by() }).await
        }
        TaskCommand::Postpone { id, delay } => {
            operate::each(session, std::slice::from_ref(id), &Verb::Postpone(*delay)).await
        }
        TaskCommand::Resolve { ids, result, by } => {
            let result = result.as_ref().map(|source| source.json("result")).transpose()?;
            operate::each(session, ids, &Verb::Resolve { result, by: by.by() }).await
        }
        TaskCommand::Delete { targets } => targets.apply(session, &Verb::Delete).await,
    }
}

/// A task that must be there.
async fn find(client: &Client, id: TaskId) -> Result<Record> {
    client.get(id).await?.ok_or_else(|| not_found(id))
}

pub(crate) fn not_found(id: TaskId) -> anyhow::Error {
    anyhow!("task {id} does not exist; `windlass task list` shows those that do")
}

async fn get(session: &Session, id: TaskId) -> Result<Answer> {
    let client = session.existing().await?;
    let record = find(&client, id).await?;
    let step = client.step_name(&record.task).await?;
    let now = client.store().now().await?;
    let text = page_of_step(&record, step.as_deref(), now, session.paint());
    Ok(Answer::new(text, &RecordJson::of(&record).at(step.as_deref())))
}

async fn log(session: &Session, id: TaskId, wanted: Option<u32>) -> Result<Answer> {
    let record = find(&session.existing().await?, id).await?;
    let mut attempts = attempt::all(&record.history, &record.notes);
    let known = attempts.len();
    attempts.retain(|told| wanted.is_none_or(|wanted| told.attempt.number == wanted));
    match wanted {
        Some(wanted) if attempts.is_empty() => {
            return Err(anyhow!(
                "task {id} has no attempt {wanted}; it has had {known}, see `windlass task get {id}`"
            ));
        }
        _ => {}
    }
    let text = match attempts.is_empty() {
        true => "no attempts yet\n".into(),
        false => attempts.iter().map(attempt::log_text).collect::<Vec<_>>().join("\n"),
    };
    let logs: Vec<_> = attempts.iter().map(LogJson::of).collect();
    Ok(Answer::new(text, &json!({ "id": id.to_string(), "attempts": logs })))
}

/// A full page, if there is that much: a store may answer with less and go on.
async fn list(session: &Session, filter: &FilterArgs, mut page: Page) -> Result<Answer> {
    let scope = filter.scope(session)?;
    let client = session.existing().await?;
    let now = client.store().now().await?;
    let (filter, wanted, mut tasks) = (filter.filter(scope, now), page.limit, Vec::new());
    let next = loop {
        let listing = client.list(filter.clone(), page).await?;
        tasks.extend(listing.tasks);
        page.limit = wanted - tasks.len();
        page.after = listing.next;
        if page.limit == 0 || page.after.is_none() {
            break listing.next.map(|next| next.to_string());
        }
    };
    let mut text = match tasks.is_empty() {
        true => "no such tasks\n".into(),
        false => table(&tasks, now, session.paint()),
    };
    if let Some(next) = &next {
        text += &format!("more with --cursor {next}\n");
    }
    let tasks: Vec<_> = tasks.iter().map(TaskJson::of).collect();
    Ok(Answer::new(text, &json!({ "tasks": tasks, "next_cursor": next })))
}
