//! `windlass queue`.

use std::collections::BTreeMap;

use anyhow::Result as Anyhow;
use clap::Subcommand;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;
use windlass::{Client, Error, Name, State};

use crate::session::Session;
use crate::show::Answer;
use crate::table::Table;

#[derive(Subcommand, Debug)]
pub(crate) enum QueueCommand {
    /// List queues: how many tasks are in them, whether they are paused, how many live workers take them
    #[command(after_help = "Example:\n  windlass queue list --all-namespaces")]
    List {
        /// Of all namespaces
        #[arg(long)]
        all_namespaces: bool,
    },
    /// Let nothing more of a queue be claimed; what is running goes on
    #[command(after_help = "Example:\n  windlass queue pause emails")]
    Pause {
        /// The queue
        #[arg(value_name = "QUEUE", value_parser = Name::queue)]
        queue: Name,
    },
    /// Let a paused queue go on
    #[command(after_help = "Example:\n  windlass queue resume emails")]
    Resume {
        /// The queue
        #[arg(value_name = "QUEUE", value_parser = Name::queue)]
        queue: Name,
    },
}

pub(crate) async fn run(session: &Session, command: &QueueCommand) -> Anyhow<Answer> {
    match command {
        QueueCommand::List { all_namespaces } => list(session, *all_namespaces).await,
        QueueCommand::Pause { queue } => pause(session, queue, true).await,
        QueueCommand::Resume { queue } => pause(session, queue, false).await,
    }
}

async fn pause(session: &Session, queue: &Name, paused: bool) -> Anyhow<Answer> {
    session.client().await?.pause(queue, paused).await?;
    let text = match paused {
        true => format!("queue {queue} is paused; what is running goes on\n"),
        false => format!("queue {queue} is not paused\n"),
    };
    let json = PausedJson { namespace: session.namespace().to_string(), queue: queue.to_string(), paused };
    Ok(Answer::new(text, &json))
}

/// What is known about a queue.
#[derive(Serialize, ToSchema, Debug, Default)]
#[schema(as = Queue)]
pub(crate) struct QueueJson {
    namespace: String,
    queue: String,
    paused: bool,
    live_workers: u64,
    /// How many tasks are in each state.
    tasks: BTreeMap<&'static str, u64>,
}

impl QueueJson {
    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.queue
    }

    /// Where it is.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    fn tasks(&self, states: &[State]) -> u64 {
        states.iter().filter_map(|state| self.tasks.get(state.word())).sum()
    }

    /// All queues of a namespace, or of all: those that have tasks, are paused, or are taken by a live
    /// worker.
    pub(crate) async fn all(client: &Client, scope: Option<&Name>) -> Result<Vec<Self>, Error> {
        let store = client.store();
        let now = store.now().await?;
        let mut queues: BTreeMap<(Name, Name), Self> = BTreeMap::new();
        for count in client.stats().await? {
            let queue = queues.entry((count.namespace, count.queue)).or_default();
            *queue.tasks.entry(count.state.word()).or_default() += count.tasks;
        }
        for queue in store.paused().await? {
            queues.entry(queue).or_default().paused = true;
        }
        for worker in client.workers().await?.iter().filter(|worker| worker.is_alive(now)) {
            for queue in &worker.queues {
                queues.entry((worker.namespace.clone(), queue.clone())).or_default().live_workers += 1;
            }
        }
        queues.retain(|(namespace, _), _| scope.is_none_or(|wanted| wanted == namespace));
        for ((namespace, name), queue) in &mut queues {
            (queue.namespace, queue.queue) = (namespace.to_string(), name.to_string());
            for state in State::ALL {
                queue.tasks.entry(state.word()).or_default();
            }
        }
        Ok(queues.into_values().collect())
    }
}

/// A queue that was paused, or let go on.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = PausedQueue)]
pub(crate) struct PausedJson {
    pub(crate) namespace: String,
    pub(crate) queue: String,
    pub(crate) paused: bool,
}

async fn list(session: &Session, everywhere: bool) -> Anyhow<Answer> {
    let scope = session.scope(everywhere)?;
    let queues = QueueJson::all(&session.existing().await?, scope.as_ref()).await?;
    let text =
        if queues.is_empty() { "no queues\n".into() } else { table(&queues).render(session.paint(), "") };
    Ok(Answer::new(text, &json!({ "queues": queues })))
}

fn table(queues: &[QueueJson]) -> Table {
    use State::{
        Cancelled, Claimed, Completed, DeadLetter, Failed, Pending, ResolvedManually, Running, Scheduled,
        Skipped, Waiting, WaitingForRetry,
    };
    let headers = [
        "QUEUE",
        "NAMESPACE",
        "PENDING",
        "RUNNING",
        "WAITING",
        "COMPLETED",
        "FAILED",
        "SETTLED",
        "WORKERS",
        "STATUS",
    ];
    let mut table = Table::new(&headers);
    for queue in queues {
        let namespace = Some(&*queue.namespace).filter(|namespace| *namespace != "default");
        table.row([
            (&*queue.queue).into(),
            namespace.unwrap_or_default().into(),
            queue.tasks(&[Pending]).into(),
            queue.tasks(&[Claimed, Running]).into(),
            queue.tasks(&[Waiting, Scheduled, WaitingForRetry]).into(),
            queue.tasks(&[Completed]).into(),
            queue.tasks(&[Failed, DeadLetter]).into(),
            queue.tasks(&[Cancelled, Skipped, ResolvedManually]).into(),
            queue.live_workers.into(),
            if queue.paused { "paused" } else { "" }.into(),
        ]);
    }
    table.without_empty()
}
