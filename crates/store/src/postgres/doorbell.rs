//! LISTEN and NOTIFY: how the processes at one database wake one another. Only an optimisation: what it
//! misses is found by looking.
//!
//! A bell is rung after the commit, on a connection of its own, so that nobody's commit waits for the lock
//! that NOTIFY takes; and what gathers while one is on its way is rung at once.
//!
//! The same connection announces delayed messages of document 002's queues when their time has come.

use std::future::{pending, poll_fn};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tokio_postgres::{AsyncMessage, Client};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::{debug, info, warn};

use super::connect::Address;
use super::failure::words;
use super::floor::{Floors, Told};
use super::row;
use super::sql::{Sql, Statement};
use super::tx::{Answer, Args, args, run};
use crate::request::Rings;

/// How often everybody is woken where notifications do not arrive.
pub(super) const POLL: Duration = Duration::from_secs(1);

/// How often it is asked whether an old snapshot is in the way of claims, while there are any.
const LOOK: Duration = Duration::from_millis(500);

/// How long the first notification may take before it counts as lost.
const TRIAL: Duration = Duration::from_secs(2);

/// The longest that is waited for the next message to announce.
const FAR: Duration = Duration::from_secs(24 * 3600);

/// How long to wait before the next try to listen.
const AGAIN: Duration = Duration::from_millis(500);

/// Whether notifications arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hearing {
    Listening,
    Polling,
}

#[derive(Debug)]
pub(super) struct Doorbell {
    wake: watch::Sender<Rings>,
    /// What the others are yet to be told.
    untold: Mutex<Rings>,
    news: Notify,
    /// Somebody has sent a message that is to be announced later.
    delayed: Notify,
    /// Who rings, so that one does not wake oneself.
    sender: String,
    sql: Arc<Sql>,
    floors: Arc<Floors>,
    pub(super) hearing: watch::Sender<Option<Hearing>>,
}

impl Doorbell {
    pub(super) fn new(sender: String, sql: Arc<Sql>, floors: Arc<Floors>) -> Self {
        let (wake, hearing) = (watch::Sender::default(), watch::Sender::new(None));
        let (news, delayed) = (Notify::new(), Notify::new());
        Self { wake, untold: Mutex::default(), news, delayed, sender, sql, floors, hearing }
    }

    pub(super) fn watch(&self) -> watch::Receiver<Rings> {
        self.wake.subscribe()
    }

    /// Whether notifications arrive; then no pooler is in between.
    pub(super) fn is_listening(&self) -> bool {
        *self.hearing.borrow() == Some(Hearing::Listening)
    }

    /// Rings for everybody here and elsewhere.
    pub(super) fn ring(&self, rings: Rings) {
        if rings == Rings::default() {
            return;
        }
        self.ring_here(rings);
        add(&mut self.untold.lock().unwrap_or_else(PoisonError::into_inner), rings);
        self.news.notify_one();
    }

    fn ring_here(&self, rings: Rings) {
        self.wake.send_modify(|now| add(now, rings));
    }

    fn ring_all_here(&self) {
        self.wake.send_modify(Rings::ring_all);
    }

    /// Listens and tells, for as long as the store is open; through lost connections, too.
    pub(super) async fn attend(self: Arc<Self>, address: Address, tls: MakeRustlsConnect) {
        loop {
            if let Err(error) = self.listen(&address, tls.clone()).await {
                debug!(error, "the doorbell is disconnected");
            }
            self.floors.hear(None);
            // What was rung in between was not heard.
            self.ring_all_here();
            sleep(AGAIN).await;
        }
    }

    async fn listen(&self, address: &Address, tls: MakeRustlsConnect) -> Result<(), String> {
        let said = |error: tokio_postgres::Error| words(&error);
        let (client, mut connection) = address.config.connect(tls.clone()).await.map_err(said)?;
        let (heard, mut news) = mpsc::unbounded_channel();
        let driving = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message {
                    let _ = heard.send(notification.payload().to_owned());
                }
            }
        });
        let _stop = Abort(driving.abort_handle());
        client.batch_execute(&format!("LISTEN {}", address.schema)).await.map_err(said)?;
        let arrives = self.trial(address, tls, &mut news).await?;
        self.ring_all_here();
        let hearing = if arrives { Hearing::Listening } else { Hearing::Polling };
        if !arrives {
            // A pooler keeps the connection that was told to listen for others: tell them all not to, as far
            // as they come by.
            for _ in 0..20 {
                client.batch_execute(&format!("UNLISTEN {}", address.schema)).await.map_err(said)?;
            }
        }
        self.look(&client).await?;
        if self.hearing.send_replace(Some(hearing)) != Some(hearing) && hearing == Hearing::Polling {
            warn!(
                "notifications do not arrive (is there a pooler in transaction mode in between?); looking every {POLL:?} instead"
            );
        } else {
            info!("listening for notifications");
        }
        let mut announces_at = self.announce(&client).await?;
        let (mut looks, mut polls) = (interval(LOOK), interval(POLL));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = looks.tick() => if self.floors.is_used() { self.look(&client).await? },
                _ = polls.tick(), if hearing == Hearing::Polling => {
                    self.ring_all_here();
                    announces_at = self.announce(&client).await?;
                }
                payload = news.recv() => match payload {
                    Some(payload) => self.hear(&payload),
                    None => return Err("the connection was lost".into()),
                },
                () = self.news.notified() => {
                    self.tell(&client, &address.schema).await?;
                }
                () = self.delayed.notified() => announces_at = self.announce(&client).await?,
                () = until(announces_at) => announces_at = self.announce(&client).await?,
            }
        }
    }

    /// Announces messages whose time has come. Says when the next one's will have.
    async fn announce(&self, client: &Client) -> Result<Option<Instant>, String> {
        let told = ask(client, &self.sql.announce_messages, args![]).await?;
        let next: Option<f64> = told.rows.first().and_then(|row| row::get(row, 0).ok()).flatten();
        let next = next.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(FAR).min(FAR));
        Ok(next.map(|next| Instant::now() + next))
    }

    /// Asks whether an old snapshot is in the way of claims. While one is, the processes tell one another how
    /// far these have come.
    async fn look(&self, client: &Client) -> Result<(), String> {
        let sql = &self.sql;
        let oldest = ask(client, &sql.snapshots, args![]).await?;
        let oldest =
            oldest.rows.first().and_then(|row| Some((row::get(row, 0).ok()?, row::get(row, 1).ok()?)));
        if self.floors.hear(oldest) {
            ask(client, &sql.put_floors, self.floors.tell()).await?;
            let told = ask(client, &sql.floors, args![]).await?;
            told.rows.iter().filter_map(|row| Told::read(row).ok()).for_each(|told| self.floors.adopt(told));
        }
        if self.floors.is_owing() {
            self.ring_here(Rings { claimable: 1, ..Rings::default() });
        }
        Ok(())
    }

    /// Whether a notification from another connection arrives here.
    async fn trial(
        &self,
        address: &Address,
        tls: MakeRustlsConnect,
        news: &mut mpsc::UnboundedReceiver<String>,
    ) -> Result<bool, String> {
        let said = |error: tokio_postgres::Error| words(&error);
        let (other, connection) = address.config.connect(tls).await.map_err(said)?;
        let (done, is_done) = oneshot::channel::<()>();
        tokio::spawn(async move {
            tokio::select! { _ = connection => {}, _ = is_done => {} }
        });
        let hello = format!("{} hello", self.sender);
        let arrived = async {
            notify(&other, &address.schema, hello.clone()).await?;
            let arrives = timeout(TRIAL, async {
                while let Some(payload) = news.recv().await {
                    if payload == hello {
                        return true;
                    }
                    self.hear(&payload);
                }
                false
            });
            Ok(arrives.await.unwrap_or(false))
        };
        let arrived = arrived.await;
        drop(done);
        arrived
    }

    /// Somebody rang: `SENDER BELLS`. A message is none of the bells that others here wait for.
    fn hear(&self, payload: &str) {
        let (sender, bells) = payload.rsplit_once(' ').unwrap_or(("", payload));
        if sender == self.sender {
            return;
        }
        if bells.contains('m') {
            self.delayed.notify_one();
        }
        let count = |bell: char| u64::from(bells.contains(bell));
        let (claimable, timed) = (count('c'), count('t'));
        let rings = Rings { claimable, timed, settled: count('s'), revoked: count('r') };
        if rings != Rings::default() {
            self.ring_here(rings);
        }
    }

    /// Rings for the others.
    async fn tell(&self, client: &Client, channel: &super::Schema) -> Result<(), String> {
        let untold = std::mem::take(&mut *self.untold.lock().unwrap_or_else(PoisonError::into_inner));
        let bells =
            [(untold.claimable, 'c'), (untold.timed, 't'), (untold.settled, 's'), (untold.revoked, 'r')];
        let bells: String = bells.into_iter().filter(|(rung, _)| *rung > 0).map(|(_, bell)| bell).collect();
        if bells.is_empty() {
            return Ok(());
        }
        let told = notify(client, channel, format!("{} {bells}", self.sender)).await;
        if told.is_err() {
            add(&mut self.untold.lock().unwrap_or_else(PoisonError::into_inner), untold);
            self.news.notify_one();
        }
        told
    }
}

/// What is only for speed: who may not ask gets no answer.
async fn ask(client: &Client, statement: &Statement, values: Args) -> Result<Answer, String> {
    match run(client, &statement.text, values).await {
        Err(error) if error.as_db_error().is_some() => {
            debug!(error = words(&error), "claims do without it");
            Ok(Answer::default())
        }
        done => done.map_err(|error| words(&error)),
    }
}

async fn notify(client: &Client, channel: &super::Schema, payload: String) -> Result<(), String> {
    let values = args![channel.as_str().to_owned() => TEXT, payload => TEXT];
    run(client, "SELECT pg_notify($1, $2)", values).await.map(drop).map_err(|error| words(&error))
}

fn add(rings: &mut Rings, more: Rings) {
    rings.claimable += more.claimable;
    rings.timed += more.timed;
    rings.settled += more.settled;
    rings.revoked += more.revoked;
}

/// Never, if there is no such moment.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}

/// Stops a task when it is dropped.
struct Abort(tokio::task::AbortHandle);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}
