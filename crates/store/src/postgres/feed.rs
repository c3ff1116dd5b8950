//! The feed of changes. Triggers write it, whoever makes the change, and only while somebody listens:
//! otherwise they do not even run.
//!
//! Switching it on has to wait for those who were at work already and may not have known, as building an
//! index beside them does. They are found by their locks and nobody is held up: a lock on the tables would
//! stand in the way of claims, and wait for vacuum.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_postgres::Row;
use windlass_core::{Change, Event, EventId, Events, Timestamp, WorkflowId, limits};

use super::read::{all, first};
use super::row::{self, Foreign, moment, signed};
use super::tx::{Tx, Which, args};
use super::{Inner, workflow_row};
use crate::error::{Error, Result};
use crate::feed::{Feed, Listening, answer};

/// How long those are waited for who were at work when the feed was switched on.
const PATIENCE: Duration = Duration::from_secs(10);

/// The row of `listening`.
struct Told {
    until: Timestamp,
    /// Whether nobody is at work any more who may not know that somebody listens.
    ready: bool,
    now: Timestamp,
    feed: Feed,
}

fn told(row: &Row) -> Result<Told, Foreign> {
    let feed = Feed { since: event_id(row, 3)?, end: event_id(row, 5)? };
    Ok(Told { until: row::time(row, 0)?, ready: row::get(row, 1)?, now: row::time(row, 2)?, feed })
}

/// An id from its two columns, the first of which is `column`.
fn event_id(row: &Row, column: usize) -> Result<EventId, Foreign> {
    Ok(EventId::new(row::unsigned(row, column)?, row::unsigned(row, column + 1)?))
}

fn event(row: &Row) -> Result<Event, Foreign> {
    let change = match row::get(row, 4)? {
        "workflow" => Change::Workflow {
            workflow: workflow_row::workflow_id(row, 5)?,
            name: row::name(row, 7)?,
            state: row::parse(row, 8)?,
        },
        what => {
            let task = row::id(row, 5)?;
            Change::Task {
                task,
                workflow: (what == "step").then(|| WorkflowId::of(task)),
                queue: row::name(row, 6)?,
                kind: row::name(row, 7)?,
                state: row::parse(row, 8)?,
                attempt: row::unsigned(row, 9)?,
            }
        }
    };
    Ok(Event { id: event_id(row, 0)?, at: row::time(row, 2)?, namespace: row::name(row, 3)?, change })
}

impl Inner {
    pub(super) async fn events(self: &Arc<Self>, after: Option<EventId>, limit: usize) -> Result<Events> {
        let (mut after, mut complete) = (after, true);
        loop {
            let (Told { until, ready, now, feed }, events) = self.told(after, limit).await?;
            let next = now.plus(limits::LISTENED);
            let is_kept = match Listening::at(now, until) {
                Listening::GoesOn => true,
                Listening::RunsOut => self.listen(|sql| &sql.keep_listening, now, next).await? > 0,
                Listening::IsOver => {
                    self.listen(|sql| &sql.begin_listening, now, next).await?;
                    false
                }
            };
            if !is_kept {
                continue;
            }
            if !ready {
                self.wait_for_others().await?;
                self.write(|sql| &sql.begin_telling, || args![moment(until) => TIMESTAMPTZ]).await?;
                continue;
            }
            let (from, is_whole) = feed.from(after);
            complete &= is_whole;
            if after.is_none_or(|after| after == from) {
                return Ok(answer(events, from, complete));
            }
            after = Some(from);
        }
    }

    /// What is known of the feed, and what comes after `after`.
    async fn told(self: &Arc<Self>, after: Option<EventId>, limit: usize) -> Result<(Told, Vec<Event>)> {
        let given = self.clock.given();
        let answers = self
            .read(|| {
                let mut asked = vec![((|sql| &sql.listening) as Which, args![given => TIMESTAMPTZ])];
                if let Some((group, place)) = after.map(EventId::numbers) {
                    let values = args![signed(group) => INT8, signed(place) => INT8, signed(limit) => INT8];
                    asked.push((|sql| &sql.events, values));
                }
                asked
            })
            .await?;
        let row = first(&answers[0], told)?;
        let told = row.ok_or_else(|| Error::Unusable("the table listening has no row".into()))?;
        Ok((told, answers.get(1).map_or(Ok(Vec::new()), |answer| all(answer, event))?))
    }

    async fn listen(self: &Arc<Self>, which: Which, now: Timestamp, until: Timestamp) -> Result<u64> {
        self.write(which, || args![moment(now) => TIMESTAMPTZ, moment(until) => TIMESTAMPTZ]).await
    }

    /// Waits until all have ended who are changing tasks or workflows now.
    async fn wait_for_others(self: &Arc<Self>) -> Result<()> {
        let name = |row: &Row| row::get::<String>(row, 0);
        let mut others = all(&self.ask(|sql| &sql.others_at_work, Vec::new).await?, name)?;
        let (since, mut pause) = (Instant::now(), Duration::from_millis(1));
        while !others.is_empty() {
            if since.elapsed() > PATIENCE {
                let why = "a transaction that has changed tasks has been open for long; when it has ended, changes can be told";
                return Err(Error::Unavailable(why.into()));
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
            let still = || args![others.clone() => TEXT_ARRAY];
            let left = all(&self.ask(|sql| &sql.still_at_work, still).await?, name)?;
            others = left;
        }
        Ok(())
    }
}

impl Tx {
    /// Switches off what nobody listens to, and deletes old events, and those of a time that is over.
    pub(super) async fn prune_events(&mut self, now: Timestamp) {
        self.send(|sql| &sql.stop_listening, args![moment(now) => TIMESTAMPTZ]).await;
        let before = moment(now.minus(limits::EVENTS_KEPT));
        let values = args![before => TIMESTAMPTZ, signed(limits::EVENTS_PRUNED) => INT8];
        self.send(|sql| &sql.forget_events, values).await;
    }
}
