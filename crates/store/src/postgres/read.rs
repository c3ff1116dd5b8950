//! What is read: each answer from one snapshot, which never waits for a writer and never holds one up.

use std::sync::Arc;

use windlass_core::{
    Command, Entity, Facts, LaneHolder, Leadership, Name, Retention, Schedule, State, Task, TaskId,
    Timestamp, Worker, limits,
};

use super::Inner;
use super::board::{Board, LaneKey};
use super::failure::Failure;
use super::row::{self, AFTER_TASK, Foreign, moment, signed, uuid};
use super::tx::{Answer, Args, Tx, Which, args};
use crate::error::Result;
use crate::request::{Count, Cursor, Due, Filter, Listing, Look, Page, Reconciled, Record};

pub(super) fn all<T>(
    answer: &Answer,
    decode: impl Fn(&tokio_postgres::Row) -> Result<T, Foreign>,
) -> Result<Vec<T>> {
    let rows: Result<Vec<T>, Foreign> = answer.rows.iter().map(decode).collect();
    rows.map_err(|error| Failure::from(error).error())
}

pub(super) fn first<T>(
    answer: &Answer,
    decode: impl Fn(&tokio_postgres::Row) -> Result<T, Foreign>,
) -> Result<Option<T>> {
    answer.rows.first().map(decode).transpose().map_err(|error| Failure::from(error).error())
}

impl Inner {
    /// The answer to one question.
    pub(super) async fn ask(self: &Arc<Self>, which: Which, values: impl Fn() -> Args) -> Result<Answer> {
        Ok(self.read(|| vec![(which, values())]).await?.pop().unwrap_or_default())
    }

    pub(super) async fn now(self: &Arc<Self>) -> Result<Timestamp> {
        let given = self.clock.given();
        let answer = self.ask(|sql| &sql.now, || args![given => TIMESTAMPTZ]).await?;
        let now = first(&answer, |row| row::time(row, 0))?.unwrap_or_default();
        self.clock.hear(now);
        Ok(now)
    }

    pub(super) async fn workers(self: &Arc<Self>) -> Result<Vec<Worker>> {
        all(&self.ask(|sql| &sql.workers, Vec::new).await?, row::worker)
    }

    pub(super) async fn leader(self: &Arc<Self>) -> Result<Option<Leadership>> {
        Ok(first(&self.ask(|sql| &sql.leader, Vec::new).await?, row::leadership)?.flatten())
    }

    pub(super) async fn due(self: &Arc<Self>, limit: usize) -> Result<Due> {
        let now = self.now().await?;
        let (look, page) = (self.floors.look(), || args![moment(now) => TIMESTAMPTZ, signed(limit) => INT8]);
        let answers = self.read(|| {
            let mut due = page();
            due.extend(args![moment(look.from()) => TIMESTAMPTZ]);
            // None is looked for if nobody has to look at everything.
            let orphans =
                args![moment(now) => TIMESTAMPTZ, if look.is_whole() { signed(limit) } else { 0 } => INT8];
            vec![
                ((|sql| &sql.due) as Which, due),
                (|sql| &sql.orphans, orphans),
                (|sql| &sql.due_schedules, page()),
                (|sql| &sql.next_due, args![moment(now) => TIMESTAMPTZ]),
            ]
        });
        let answers = answers.await?;
        let last = answers[0].rows.last().map(|row| row::time(row, 1)).transpose();
        let again = self.floors.looked(&look, last.map_err(|error| Failure::from(error).error())?);
        let mut commands = all(&answers[0], |row| Ok(Command::Promote { task: row::id(row, 0)? }))?;
        let expire = |row: &_| Ok(Command::Expire { task: row::id(row, 0)?, lease: row::unsigned(row, 1)? });
        commands.extend(all(&answers[1], expire)?);
        commands.truncate(limit);
        let schedules = all(&answers[2], row::schedule)?;
        let moments = |row: &_| {
            Ok((row::optional_time(row, 0)?, row::optional_time(row, 1)?, row::optional_time(row, 2)?))
        };
        let (due, slot, silent_at) = first(&answers[3], moments)?.unwrap_or_default();
        let next = [due, slot, again.map(|again| now.plus(again))].into_iter().flatten().min();
        let next = next.filter(|_| commands.len() < limit && schedules.len() < limit);
        Ok(Due { commands, schedules, next, silent_at, now })
    }

    pub(super) async fn record(self: &Arc<Self>, id: TaskId) -> Result<Option<Record>> {
        let values = || args![uuid(id) => UUID];
        let answers = self.read(|| {
            vec![
                ((|sql| &sql.record) as Which, values()),
                (|sql| &sql.history_of, values()),
                (|sql| &sql.all_notes, values()),
            ]
        });
        let answers = answers.await?;
        let decode = |row: &_| {
            let payload = row::json(row, AFTER_TASK)?.unwrap_or_default();
            Ok((row::task(row)?.1, payload, row::json(row, AFTER_TASK + 1)?))
        };
        let Some((task, payload, result)) = first(&answers[0], decode)? else { return Ok(None) };
        let mut history = all(&answers[1], |row| row::entry(row, None))?;
        for at in 1..history.len() {
            history[at].from = Some(history[at - 1].to);
        }
        let notes = all(&answers[2], |row| Ok(row::notes(row)?.1))?;
        Ok(Some(Record { task, payload, result, history, notes }))
    }

    pub(super) async fn find(
        self: &Arc<Self>,
        namespace: &Name,
        kind: &Name,
        key: &str,
    ) -> Result<Option<TaskId>> {
        let values =
            || args![namespace.to_string() => TEXT, kind.to_string() => TEXT, key.to_owned() => TEXT];
        // What the database cannot hold it does not have.
        if key.contains('\0') {
            return Ok(None);
        }
        first(&self.ask(|sql| &sql.find, values).await?, |row| row::id(row, 0))
    }

    /// Looks at tasks in the order of the page, where the wanted ones are, and at [`limits::PAGE_SCAN`] at
    /// most.
    pub(super) async fn tasks(self: &Arc<Self>, filter: &Filter, page: Page) -> Result<Listing> {
        if let Some(workflow) = filter.workflow {
            return self.steps(workflow, filter, page).await;
        }
        let (mut found, mut looked_at): (Vec<(i64, Task)>, usize) = (Vec::new(), 0);
        let mut place = page.after.map(|Cursor(after)| signed(after));
        loop {
            let most = limits::PAGE.min(limits::PAGE_SCAN - looked_at);
            let text = self.listing(filter, page.oldest_first, place, most);
            let answers = self.with_text(text, filter.worker.as_ref().map(ToString::to_string)).await?;
            let rows = all(&answers, row::task)?;
            let (len, last) = (rows.len(), rows.last().map(|(seq, _)| *seq));
            looked_at += len;
            found.extend(rows.into_iter().filter(|(_, task)| filter.wants(task)));
            if found.len() > page.limit || len < most || looked_at >= limits::PAGE_SCAN {
                let more = if found.len() > page.limit {
                    found.truncate(page.limit);
                    found.last().map(|(seq, _)| *seq)
                } else if len < most {
                    None
                } else {
                    last
                };
                let next = more.and_then(|seq| u64::try_from(seq).ok()).map(Cursor);
                return Ok(Listing { tasks: found.into_iter().map(|(_, task)| task).collect(), next });
            }
            place = last;
        }
    }

    /// The statement that reads the next tasks of a listing: from the smallest table that has all of the
    /// wanted.
    fn listing(&self, filter: &Filter, oldest_first: bool, place: Option<i64>, most: usize) -> String {
        let (sign, order) = if oldest_first { (">", "ASC") } else { ("<", "DESC") };
        let after = place.map(|seq| format!("AND s.seq {sign} {seq}")).unwrap_or_default();
        let states = || {
            let words: Vec<String> =
                filter.states.iter().map(|state| format!("'{}'", state.word())).collect();
            format!("s.state IN ({})", words.join(", "))
        };
        let is = |wanted: fn(&State) -> bool| !filter.states.is_empty() && filter.states.iter().all(wanted);
        let schema = &self.schema;
        let source = if is(|state| state.is_held()) && filter.worker.is_some() {
            format!("{schema}.live s WHERE s.worker = $1 AND s.worker IS NOT NULL")
        } else if is(|state| !state.is_final()) {
            format!("{schema}.live s WHERE {}", states())
        } else if is(|state| state.is_final() && *state != State::Completed) {
            format!("{schema}.ended s WHERE s.state <> 'completed' AND {}", states())
        } else {
            format!("{schema}.tasks s WHERE true")
        };
        super::sql::listing(&format!("{source} {after} ORDER BY s.seq {order} LIMIT {most}"), order, schema)
    }

    async fn with_text(self: &Arc<Self>, text: String, worker: Option<String>) -> Result<Answer> {
        let values = || if text.contains("$1") { args![worker.clone() => TEXT] } else { args![] };
        self.read_text(&text, values()).await
    }

    pub(super) async fn counts(self: &Arc<Self>) -> Result<Vec<Count>> {
        let count = |row: &_| {
            let (namespace, queue, kind) = (row::name(row, 0)?, row::name(row, 1)?, row::name(row, 2)?);
            let (is_step, state) = (row::get(row, 3)?, row::parse(row, 4)?);
            Ok(Count { namespace, queue, kind, is_step, state, tasks: row::unsigned(row, 5)? })
        };
        let mut counts = all(&self.ask(|sql| &sql.counts, Vec::new).await?, count)?;
        counts.sort_unstable();
        Ok(counts)
    }

    pub(super) async fn facts(self: &Arc<Self>, id: TaskId) -> Result<Option<Facts>> {
        let now = self.now().await?;
        let answer = self.ask(|sql| &sql.task, || args![uuid(id) => UUID]).await?;
        let Some(spec) = first(&answer, |row| Ok(row::task(row)?.1.spec))? else { return Ok(None) };
        let (namespace, lane) = spec.lane_key().unwrap_or((&spec.namespace, ""));
        let answers = self.read(|| {
            vec![
                ((|sql| &sql.task) as Which, args![uuid(id) => UUID]),
                (|sql| &sql.paused_queues, args![]),
                (|sql| &sql.lane_holders, args![namespace.to_string() => TEXT, lane.to_owned() => TEXT]),
                (|sql| &sql.workers, args![]),
            ]
        });
        let answers = answers.await?;
        let Some((_, task)) = first(&answers[0], row::task)? else { return Ok(None) };
        let paused = all(&answers[1], |row| Ok((row::name(row, 0)?, row::name(row, 1)?)))?;
        let holders = all(&answers[2], row::task)?;
        let others = holders.iter().filter(|(_, holder)| holder.id != id);
        let workers = all(&answers[3], row::worker)?;
        let takers = workers.iter().filter(|worker| worker.is_alive(now));
        let takers = takers.filter(|worker| worker.takes(&spec.namespace, &spec.queue, &spec.kind));
        let holder = workers.iter().find(|worker| Some(&worker.id) == task.status.worker.as_ref());
        Ok(Some(Facts {
            paused: paused.contains(&(spec.namespace.clone(), spec.queue.clone())),
            lane_holders: others.map(|(_, holder)| LaneHolder::of(holder)).collect(),
            live_workers: u32::try_from(takers.count()).unwrap_or(u32::MAX),
            alive_until: holder.map(Worker::alive_until),
            task,
            now,
        }))
    }

    pub(super) async fn paused(self: &Arc<Self>) -> Result<Vec<(Name, Name)>> {
        let answer = self.ask(|sql| &sql.paused_queues, Vec::new).await?;
        all(&answer, |row| Ok((row::name(row, 0)?, row::name(row, 1)?)))
    }

    pub(super) async fn has_entity(self: &Arc<Self>, namespace: &Name, entity: &Entity) -> Result<bool> {
        let values = || args![namespace.to_string() => TEXT, entity.as_str().to_owned() => TEXT];
        let answer = self.ask(|sql| &sql.has_entity, values).await?;
        Ok(first(&answer, |row| row::get(row, 0))?.unwrap_or(false))
    }

    pub(super) async fn entities(
        self: &Arc<Self>,
        namespace: &Name,
        after: Option<&Entity>,
        limit: usize,
    ) -> Result<Vec<Entity>> {
        let after = after.map_or("", Entity::as_str);
        let values = || args![namespace.to_string() => TEXT, after.to_owned() => TEXT, signed(limit) => INT8];
        let answer = self.ask(|sql| &sql.entities, values).await?;
        all(&answer, |row| Ok(Entity::stored(row::get(row, 0)?)))
    }

    pub(super) async fn schedules(self: &Arc<Self>) -> Result<Vec<Schedule>> {
        all(&self.ask(|sql| &sql.schedules, Vec::new).await?, row::schedule)
    }

    pub(super) async fn settings(self: &Arc<Self>) -> Result<Vec<(&'static str, String)>> {
        let answer = self.ask(|sql| &sql.settings, Vec::new).await?;
        let read = |row: &_| {
            let text = |column| row::get::<String>(row, column);
            let (commit, fsync, pages) = (text(1)?, text(2)?, text(3)?);
            let durability = match (&*commit, &*fsync, &*pages) {
                (_, "off", _) | (.., "off") => {
                    "none: fsync or full_page_writes is off at the server, and a crash may destroy the database"
                }
                ("off", ..) => {
                    "synchronous_commit is off: the last acknowledged writes before a crash may be lost"
                }
                ("local", ..) => {
                    "local: an acknowledged write survives a power cut of the primary, not its loss"
                }
                _ => "full: an acknowledged write survives a power cut",
            };
            let version: Option<i64> = row::get(row, 5)?;
            Ok(vec![
                ("durability", durability.to_owned()),
                ("postgresql version", text(0)?),
                ("schema version", version.unwrap_or(0).to_string()),
                ("synchronous_commit", commit),
                ("fsync", fsync),
                ("full_page_writes", pages),
            ])
        };
        Ok(first(&answer, read)?.unwrap_or_default())
    }

    /// Removes what retention does not keep, at most `limit` tasks, and workers that died long ago.
    pub(super) async fn prune(self: &Arc<Self>, retention: &Retention, limit: usize) -> Result<usize> {
        self.transaction(async |tx: &mut Tx| {
            let answer = tx.ask(|sql| &sql.now, args![tx.inner.clock.given() => TIMESTAMPTZ]).await?;
            let now = row::time(&answer.rows[0], 0)?;
            let dead = moment(now.minus(limits::DEAD_WORKERS));
            tx.send(|sql| &sql.forget_workers, args![dead => TIMESTAMPTZ]).await;
            tx.prune_events(now).await;
            tx.prune_audit(now).await;
            let (states, before): (Vec<_>, Vec<_>) =
                retention.cutoffs(now).map(|(state, before)| (state.word(), moment(before))).unzip();
            let values = args![states => TEXT_ARRAY, before => TIMESTAMPTZ_ARRAY, signed(limit) => INT8];
            let old = tx.ask(|sql| &sql.old, values).await?;
            let mut board = Board::default();
            let mut seqs: Vec<i64> = Vec::with_capacity(old.rows.len());
            for row in &old.rows {
                seqs.push(row::get(row, 0)?);
                let sort = (row::name(row, 1)?, row::name(row, 2)?, row::name(row, 3)?, false);
                board.count_sort(sort, row::parse(row, 4)?, -1);
            }
            let pruned = seqs.len();
            if pruned > 0 {
                tx.send(|sql| &sql.delete, args![seqs.clone() => INT8_ARRAY]).await;
                tx.send(|sql| &sql.delete_history, args![seqs => INT8_ARRAY]).await;
            }
            let workflows = tx.prune_workflows(&mut board, retention, limit - pruned, now).await?;
            tx.commit_board(board).await?;
            Ok(pruned + workflows)
        })
        .await
    }

    /// Looks at lanes in which tasks wait, in the order of namespace and key, and gives the slots that are
    /// free. A lane is written `namespace key`: a namespace has no space.
    pub(super) async fn reconcile_lanes(
        self: &Arc<Self>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Reconciled> {
        let after = after.unwrap_or_default();
        let (namespace, lane) = after.split_once(' ').unwrap_or((after, ""));
        let values = || args![namespace.to_owned() => TEXT, lane.to_owned() => TEXT, signed(limit) => INT8];
        let answer = self.ask(|sql| &sql.parked_lanes, values).await?;
        let lanes: Vec<LaneKey> = all(&answer, |row| Ok((row::get(row, 0)?, row::get(row, 1)?)))?;
        let next = lanes.last().filter(|_| lanes.len() == limit);
        let last = next.map(|(namespace, lane)| format!("{namespace} {lane}"));
        let next = Some(Look::next_lane(last.as_deref()));
        let lanes: std::collections::BTreeSet<LaneKey> = lanes.into_iter().collect();
        let lanes = &lanes;
        let repaired = self
            .transaction(async |tx: &mut Tx| {
                tx.lock_lanes(lanes).await;
                let given = tx.fill_lanes(lanes).await?;
                tx.commit().await?;
                tx.inner.floors.open(&given);
                Ok(given.len() as u64)
            })
            .await?;
        self.ring(crate::request::Rings { claimable: repaired, ..Default::default() });
        Ok(Reconciled { repaired, next })
    }
}
