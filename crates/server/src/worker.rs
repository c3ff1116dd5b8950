//! `windlass worker`.

use anyhow::Result;
use clap::Subcommand;
use serde_json::json;

use crate::session::Session;
use crate::show::Answer;
use crate::show::worker::{WorkerJson, table};

#[derive(Subcommand, Debug)]
pub(crate) enum WorkerCommand {
    /// List registered workers: which are alive, which one leads, and what they take
    #[command(after_help = "Example:\n  windlass worker list --all-namespaces")]
    List {
        /// Of all namespaces
        #[arg(long)]
        all_namespaces: bool,
    },
}

pub(crate) async fn run(session: &Session, command: &WorkerCommand) -> Result<Answer> {
    let WorkerCommand::List { all_namespaces } = command;
    let scope = session.scope(*all_namespaces)?;
    let client = session.existing().await?;
    let (workers, leader, now) =
        (client.workers().await?, client.store().leader().await?, client.store().now().await?);
    let wanted =
        workers.iter().filter(|worker| scope.as_ref().is_none_or(|wanted| *wanted == worker.namespace));
    let workers: Vec<_> = wanted.collect();
    let text = match workers.is_empty() {
        true => "no workers\n".into(),
        false => table(&workers, leader.as_ref(), now, session.paint()),
    };
    let workers: Vec<_> = workers.iter().map(|worker| WorkerJson::of(worker, leader.as_ref(), now)).collect();
    Ok(Answer::new(text, &json!({ "workers": workers })))
}
