//! Intervening: on tasks that are named, or on all that a filter finds.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use windlass::{By, Client, Command, Json, Page, Receipt, Rejected, State, TaskId, limits};

use super::filter::FilterArgs;
use crate::escape::plain;
use crate::failure::Usage;
use crate::progress::Progress;
use crate::session::Session;
use crate::show::Answer;
use crate::show::task::ReceiptJson;

/// The tasks to act on: named, or found.
#[derive(Args, Debug)]
pub(crate) struct Targets {
    /// The tasks' ids
    #[arg(value_name = "ID")]
    ids: Vec<TaskId>,
    /// All tasks that the filters find, instead of ids
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Only count what --all finds
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    filter: FilterArgs,
}

/// What an operator does.
#[derive(Debug)]
pub(super) enum Verb {
    Cancel(By),
    Retry { force: bool, by: By },
    Postpone(Duration),
    Resolve { result: Option<Json>, by: By },
    Delete,
}

impl Verb {
    /// `afresh` is for a dead letter that was asked for as such: it has no attempts left, so only a new life
    /// can be meant.
    fn on(&self, task: TaskId, afresh: bool) -> Command {
        match self {
            Self::Cancel(by) => Command::Cancel { task, by: by.clone() },
            Self::Retry { force, by } => Command::Retry { task, force: *force || afresh, by: by.clone() },
            Self::Postpone(delay) => Command::Postpone { task, delay: *delay },
            Self::Resolve { result, by } => Command::Resolve { task, result: result.clone(), by: by.clone() },
            Self::Delete => Command::Delete { task },
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Cancel(_) => "cancel",
            Self::Retry { .. } => "retry",
            Self::Postpone(_) => "postpone",
            Self::Resolve { .. } => "resolve",
            Self::Delete => "delete",
        }
    }

    /// What tasks are when it is done.
    fn done(&self) -> &'static str {
        match self {
            Self::Cancel(_) => "cancelled",
            Self::Retry { .. } => "made to run again",
            Self::Postpone(_) => "postponed",
            Self::Resolve { .. } => "resolved",
            Self::Delete => "deleted",
        }
    }

    /// Whether it makes sense for tasks in a state.
    fn fits(&self, state: State) -> bool {
        match self {
            Self::Cancel(_) => !state.is_final(),
            Self::Retry { .. } => {
                !matches!(state, State::Completed | State::Skipped | State::ResolvedManually)
            }
            Self::Postpone(_) => state == State::WaitingForRetry,
            Self::Resolve { .. } => !matches!(state, State::Completed | State::Skipped | State::Cancelled),
            Self::Delete => state.is_final(),
        }
    }

    /// The states that are meant if none is said.
    fn usual(&self) -> Vec<State> {
        match self {
            Self::Retry { .. } => vec![State::Failed, State::DeadLetter],
            _ => State::ALL.into_iter().filter(|state| self.fits(*state)).collect(),
        }
    }
}

impl Targets {
    pub(super) async fn apply(&self, session: &Session, verb: &Verb) -> Result<Answer> {
        let word = verb.word();
        // Left to clap, an option that needs --all would do without it beside ids.
        if !self.all && self.dry_run {
            return Err(Usage::new("--dry-run is for --all; ids name what is meant already").into());
        }
        if !self.all && !self.filter.is_empty() {
            let told =
                format!("filters are for --all; say `windlass task {word} --all …`, or ids without filters");
            return Err(Usage::new(told).into());
        }
        if !self.all && self.ids.is_empty() {
            return Err(Usage::new(format!(
                "{word} what? name ids, or say --all with --state, --kind or --queue"
            ))
            .into());
        }
        if !self.all {
            return each(session, &self.ids, verb).await;
        }
        if self.filter.is_empty() {
            let told = format!(
                "--all alone would {word} everything; add --state, --kind, --queue or another filter"
            );
            return Err(Usage::new(told).into());
        }
        if let Some(state) = self.filter.states.iter().find(|state| !verb.fits(**state)) {
            let fitting: Vec<_> =
                State::ALL.into_iter().filter(|state| verb.fits(*state)).map(State::word).collect();
            let (done, fitting) = (verb.done(), fitting.join(", "));
            return Err(
                Usage::new(format!("{state} tasks cannot be {done}; expected one of {fitting}")).into()
            );
        }
        self.selection(session, verb).await
    }

    /// Pages through what the filter finds, oldest first, up to what was there at the beginning.
    async fn selection(&self, session: &Session, verb: &Verb) -> Result<Answer> {
        let scope = self.filter.scope(session)?;
        let client = session.existing().await?;
        let began = client.store().now().await?;
        let mut filter = self.filter.filter(scope, began);
        if filter.states.is_empty() {
            filter.states = verb.usual();
        }
        let mut page = Page { limit: limits::PAGE, after: None, oldest_first: true };
        let (mut found, mut tally, mut progress) = (0_u64, Tally::default(), Progress::new(verb.done()));
        loop {
            let listing = client.list(filter.clone(), page).await?;
            let old = listing.tasks.iter().take_while(|task| task.spec.created_at <= began);
            let is_afresh = |state| state == State::DeadLetter && self.filter.states.contains(&state);
            let commands: Vec<_> = old.map(|task| verb.on(task.id, is_afresh(task.status.state))).collect();
            let count = commands.len();
            found += u64::try_from(count)?;
            if !self.dry_run {
                apply(&client, commands).await?.into_iter().for_each(|answer| tally.count(answer));
                progress.at(tally.changed);
            }
            page.after = listing.next;
            if page.after.is_none() || count < listing.tasks.len() {
                break;
            }
        }
        drop(progress);
        let Tally { changed, unchanged, refused, first } = tally;
        let text = match self.dry_run {
            true => format!("{found} would be {}\n", verb.done()),
            false => format!("{changed} {}, {unchanged} unchanged, {refused} refused\n", verb.done()),
        };
        let json = json!({
            "dry_run": self.dry_run, "found": found, "changed": changed, "unchanged": unchanged, "refused": refused,
        });
        let failure =
            first.map(|first| format!("{refused} of {found} tasks were refused; the first: {first}"));
        Ok(Answer::new(text, &json).but(failure))
    }
}

/// What became of many.
#[derive(Debug, Default)]
struct Tally {
    changed: u64,
    unchanged: u64,
    refused: u64,
    /// Why the first that was refused was.
    first: Option<Rejected>,
}

impl Tally {
    fn count(&mut self, answer: Result<Receipt, Rejected>) {
        match answer {
            Ok(Receipt { changed: true, .. }) => self.changed += 1,
            Ok(_) => self.unchanged += 1,
            Err(rejected) => {
                self.refused += 1;
                self.first.get_or_insert(rejected);
            }
        }
    }
}

/// Acts on each, in batches. One that is refused does not hinder the others.
async fn apply(client: &Client, commands: Vec<Command>) -> Result<Vec<Result<Receipt, Rejected>>> {
    let mut answers = Vec::with_capacity(commands.len());
    for batch in commands.chunks(limits::BATCH) {
        answers.extend(client.store().apply(batch.to_vec()).await?);
    }
    Ok(answers)
}

/// Acts on tasks that were named, and tells about each.
pub(super) async fn each(session: &Session, ids: &[TaskId], verb: &Verb) -> Result<Answer> {
    let client = session.existing().await?;
    let answers = apply(&client, ids.iter().map(|id| verb.on(*id, false)).collect()).await?;
    let (mut text, mut values, mut tally) = (String::new(), Vec::new(), Tally::default());
    for (id, answer) in ids.iter().zip(answers) {
        match &answer {
            Ok(receipt) => {
                let state = match verb {
                    Verb::Delete => "deleted".into(),
                    _ => session.paint().state(receipt.state),
                };
                let unchanged = if receipt.changed { "" } else { "  was so already" };
                text += &format!("{id}  {state}{unchanged}\n");
                values.push(serde_json::to_value(ReceiptJson::of(receipt))?);
            }
            Err(rejected) => {
                let told = plain(&rejected.to_string()).into_owned();
                text += &format!("{id}  refused: {told}\n");
                let error = json!({ "code": rejected.code(), "detail": rejected.to_string() });
                values.push(json!({ "id": id.to_string(), "error": error }));
            }
        }
        tally.count(answer);
    }
    match (tally.first, ids) {
        (Some(rejected), [_]) => Err(rejected.into()),
        (first, _) => {
            let of = ids.len();
            let failure = first
                .map(|first| format!("{} of {of} tasks were refused; the first: {first}", tally.refused));
            Ok(Answer::new(text, &json!({ "tasks": Value::Array(values) })).but(failure))
        }
    }
}
