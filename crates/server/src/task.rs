//! Looking at tasks.

use anyhow::{Result, anyhow};
use clap::Subcommand;
use serde_json::{Value, json};
use windlass::{Count, Cursor, Filter, Page, State, Store, TaskId};

use crate::show::{
    Answer, explanation_json, explanation_text, record_json, record_text, task_json, task_line,
};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// A task with its history.
    Get {
        /// The task's id.
        id: TaskId,
    },
    /// Tasks, newest first.
    List {
        /// Only those in this state; may be given several times.
        #[arg(long)]
        state: Vec<State>,
        /// How many at most.
        #[arg(long, default_value_t = 100, allow_hyphen_values = true)]
        limit: usize,
        /// Go on after an earlier page.
        #[arg(long)]
        cursor: Option<Cursor>,
    },
}

pub(crate) async fn run(store: &dyn Store, command: &Command) -> Result<Answer> {
    match command {
        Command::Get { id } => {
            let record = store.task(*id).await?.ok_or_else(|| not_found(*id))?;
            Ok(Answer { text: record_text(&record), json: record_json(&record) })
        }
        Command::List { state, limit, cursor } => {
            let filter = Filter { states: state.clone(), ..Filter::default() };
            let page = Page { limit: *limit, after: *cursor, oldest_first: false };
            let listing = store.tasks(filter, page).await?;
            let mut text: String = listing.tasks.iter().map(|task| task_line(task) + "\n").collect();
            let next = listing.next.map(|next| next.to_string());
            if let Some(next) = &next {
                text += &format!("more with --cursor {next}\n");
            }
            let tasks: Value = listing.tasks.iter().map(task_json).collect();
            Ok(Answer { text, json: json!({ "tasks": tasks, "next_cursor": next }) })
        }
    }
}

pub(crate) async fn why(store: &dyn Store, id: TaskId) -> Result<Answer> {
    let explanation = store.explain(id).await?.ok_or_else(|| not_found(id))?;
    Ok(Answer { text: explanation_text(id, &explanation), json: explanation_json(&explanation) })
}

pub(crate) async fn stats(store: &dyn Store) -> Result<Answer> {
    let counts = store.counts().await?;
    let line = |Count { namespace, queue, kind, state, tasks }: &Count| {
        format!("{:<16} {:<16} {:<24} {state:<18} {tasks:>10}\n", &**namespace, &**queue, &**kind)
    };
    let value = |Count { namespace, queue, kind, state, tasks }: &Count| json!({ "namespace": &**namespace, "queue": &**queue, "kind": &**kind, "state": state.word(), "tasks": tasks });
    let text = if counts.is_empty() { "no tasks\n".into() } else { counts.iter().map(line).collect() };
    Ok(Answer { text, json: counts.iter().map(value).collect() })
}

fn not_found(id: TaskId) -> anyhow::Error {
    anyhow!("task {id} does not exist; `windlass task list` shows those that do")
}
