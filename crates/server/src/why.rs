//! `windlass why`.

use anyhow::Result;
use windlass::{Client, TaskId, explain};

use crate::paint::Paint;
use crate::session::Session;
use crate::show::{Answer, explanation};
use crate::task::not_found;

pub(crate) async fn run(session: &Session, id: TaskId) -> Result<Answer> {
    answer(&session.existing().await?, id, session.paint()).await
}

/// Why a task is not running.
pub(crate) async fn answer(client: &Client, id: TaskId, paint: Paint) -> Result<Answer> {
    let facts = client.store().facts(id).await?.ok_or_else(|| not_found(id))?;
    let because = explain(&facts);
    Ok(Answer::new(explanation::text(&facts, &because, paint), &explanation::json(&because)))
}
