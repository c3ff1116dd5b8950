//! `windlass queue`.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Subcommand;
use serde::Serialize;
use serde_json::json;
use windlass::{Name, State};

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

pub(crate) async fn run(session: &Session, command: &QueueCommand) -> Result<Answer> {
    match command {
        QueueCommand::List { all_namespaces } => list(session, *all_namespaces).await,
        QueueCommand::Pause { queue } => pause(session, queue, true).await,
        QueueCommand::Resume { queue } => pause(session, queue, false).await,
    }
}

async fn pause(session: &Session, queue: &Name, paused: bool) -> Result<Answer> {
    session.client().await?.pause(queue, paused).await?;
    let text = match paused {
        true => format!("queue {queue} is paused; what is running goes on\n"),
        false => format!("queue {queue} is not paused\n"),
    };
    let json = json!({ "namespace": &*session.namespace(), "queue": &**queue, "paused": paused });
    Ok(Answer::new(text, &json))
}

/// What is known about a queue.
#[derive(Serialize, Debug, Default)]
struct Queue {
    namespace: String,
    queue: String,
    paused: bool,
    live_workers: u64,
    tasks: BTreeMap<&'static str, u64>,
}

impl Queue {
    fn tasks(&self, states: &[State]) -> u64 {
        states.iter().filter_map(|state| self.tasks.get(state.word())).sum()
    }
}

/// A queue is known if it has tasks, is paused, or is taken by a live worker.
async fn list(session: &Session, everywhere: bool) -> Result<Answer> {
    let scope = session.scope(everywhere)?;
    let client = session.existing().await?;
    let store = client.store();
    let now = store.now().await?;
    let mut queues: BTreeMap<(Name, Name), Queue> = BTreeMap::new();
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
    queues.retain(|(namespace, _), _| scope.as_ref().is_none_or(|wanted| wanted == namespace));
    for ((namespace, name), queue) in &mut queues {
        (queue.namespace, queue.queue) = (namespace.to_string(), name.to_string());
        for state in State::ALL {
            queue.tasks.entry(state.word()).or_default();
        }
    }
    let queues: Vec<Queue> = queues.into_values().collect();
    let text =
        if queues.is_empty() { "no queues\n".into() } else { table(&queues).render(session.paint(), "") };
    Ok(Answer::new(text, &json!({ "queues": queues })))
}

fn table(queues: &[Queue]) -> Table {
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
