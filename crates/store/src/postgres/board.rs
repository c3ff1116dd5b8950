//! The tasks of one transaction: as they were loaded, as the core decided they are from now on, and the
//! statements that write the difference, one for each way to change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::time::SystemTime;

use windlass_core::{
    Changes, Entry, Json, Lane, Name, Notes, Reason, Spec, State, Status, Task, TaskChange, TaskId,
    Timestamp, WorkflowId,
};

use super::floor::Opened;
use super::row::{moment, signed, uuid};
use super::submit::traces;
use super::tx::{Args, Tx, args};
use super::workflow_row::{self, Locked};
use crate::request::Rings;
use crate::text::{lines_to_json, progress_to_json, to_json};
use crate::workflow::{Tally, Touched};

/// A task, and where its row is.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) seq: i64,
    /// Where the row of `live` or `ended` is: as long as it stays there, it is as it was.
    pub(super) at: String,
    /// How many rows of history it had when it was loaded.
    pub(super) version: u32,
    /// Whether it was over when it was loaded.
    pub(super) was_over: bool,
    pub(super) task: Task,
    past: Past,
    /// What its present attempt has told, if that was asked for.
    pub(super) notes: Option<Notes>,
    told: bool,
    result: Option<Json>,
    entries: Vec<Entry>,
    /// Whether it waits for something else now, with other numbers, or until another moment.
    waits: bool,
    deleted: bool,
}

/// What the history of a task is known by.
#[derive(Clone, Debug, Default)]
pub(super) struct Past {
    /// Whether its history so far follows from the rest, and is not written down.
    pub(super) plain: bool,
    /// Who submitted it.
    pub(super) actor: Option<String>,
    /// When it was to wait no longer, if it began by waiting.
    pub(super) ready_at: Option<Timestamp>,
}

impl Row {
    pub(super) fn new(seq: i64, at: String, task: Task, past: Past) -> Self {
        let (version, was_over) = (task.status.entries, task.status.state.is_final());
        Self {
            seq,
            at,
            version,
            was_over,
            past,
            task,
            notes: None,
            told: false,
            result: None,
            entries: Vec::new(),
            waits: false,
            deleted: false,
        }
    }

    fn is_changed(&self) -> bool {
        !self.entries.is_empty() || self.waits
    }

    /// Whether it has become claimable by the last of its changes.
    pub(super) fn is_opened(&self) -> bool {
        self.entries.last().is_some_and(|entry| entry.to == State::Pending) && self.task.is_claimable()
    }

    /// The row as others find it after the transaction, at its new place.
    pub(super) fn settled(&self, at: String) -> Self {
        Self::new(self.seq, at, self.task.clone(), self.past.clone())
    }

    /// Takes note of a change. The first one that leaves the plain way has all that happened until then
    /// written down.
    fn change(&mut self, change: TaskChange) -> Status {
        if self.past.plain && !self.is_plain(&change.entries) {
            self.past.plain = false;
            self.entries = plain_history(&self.task, &self.past);
        }
        if self.past.plain
            && let [Entry { to: State::Pending, at, .. }] = &*change.entries
        {
            self.past.ready_at = Some(*at);
        }
        let Status { waits, due_at, .. } = &self.task.status;
        self.waits |= (waits, due_at) != (&change.after.waits, &change.after.due_at);
        self.result = change.result.or(self.result.take());
        self.entries.extend(change.entries);
        std::mem::replace(&mut self.task.status, change.after)
    }

    /// Whether these are steps of the plain way, which the columns of a task tell. When a step became ready
    /// is told by the moment of that change alone.
    fn is_plain(&self, entries: &[Entry]) -> bool {
        if let [entry @ Entry { to: State::Pending, seq: 2, reason: Reason::Ready, note: None, .. }] = entries
        {
            return entry.from == Some(State::Waiting) && self.entries.is_empty();
        }
        let is_becoming_ready = self.entries.iter().any(|entry| entry.to == State::Pending);
        !is_becoming_ready && is_plain(entries)
    }
}

fn is_plain(entries: &[Entry]) -> bool {
    entries.iter().all(|entry| {
        let reason = match entry.to {
            State::Claimed => Reason::Claimed,
            State::Running => Reason::Started,
            State::Completed => Reason::Completed,
            _ => return false,
        };
        entry.reason == reason && entry.note.is_none()
    })
}

/// The history of a task that went the plain way so far.
fn plain_history(task: &Task, past: &Past) -> Vec<Entry> {
    let Status { state, worker, claimed_at, started_at, finished_at, entries, .. } = &task.status;
    let (submitter, worker) = (past.actor.clone(), worker.as_ref().map(|worker| worker.as_str().into()));
    let created_at = Some(task.spec.created_at);
    let begun: &[_] = if *state == State::Waiting || past.ready_at.is_some() {
        &[
            (State::Waiting, created_at, Reason::Submitted, submitter),
            (State::Pending, past.ready_at, Reason::Ready, None),
        ]
    } else {
        &[(State::Pending, created_at, Reason::Submitted, submitter)]
    };
    let went = [
        (State::Claimed, *claimed_at, Reason::Claimed, worker.clone()),
        (State::Running, *started_at, Reason::Started, worker.clone()),
        (State::Completed, *finished_at, Reason::Completed, worker),
    ];
    let mut from = None;
    let steps =
        (1..=*entries).zip(begun.iter().cloned().chain(went)).map(|(seq, (to, at, reason, actor))| {
            let at = at.unwrap_or(task.status.updated_at);
            Entry { seq, from: from.replace(to), to, at, actor, reason, note: None }
        });
    steps.collect()
}

/// What tasks are counted by.
type Sort = (Name, Name, Name, bool, &'static str);

/// A lane: whose, and its key.
pub(super) type LaneKey = (String, String);

#[derive(Clone, Debug, Default)]
pub(super) struct Board {
    rows: HashMap<TaskId, Row>,
    counts: BTreeMap<Sort, i64>,
    /// Lanes in which slots may have become free.
    pub(super) lanes: BTreeSet<LaneKey>,
    /// What was done to tasks of workflows and is not followed up yet.
    pub(super) touched: Touched,
    /// Workflows that are locked, as they are from now on.
    pub(super) workflows: BTreeMap<WorkflowId, Locked>,
    created: Vec<Begun>,
    /// Where items are that go.
    cleared: Vec<RangeInclusive<TaskId>>,
    /// Tasks that go without having been loaded.
    gone: Vec<i64>,
    /// What is counted about workflows.
    pub(super) tally: Tally,
    pub(super) rings: Rings,
    /// What has become claimable.
    pub(super) opened: Vec<Opened>,
}

/// The key of the lane that a task is in.
pub(super) fn lane_of(spec: &Spec) -> Option<LaneKey> {
    spec.lane_key().map(|(namespace, key)| (namespace.to_string(), key.to_owned()))
}

fn sort_of(spec: &Spec) -> (Name, Name, Name, bool) {
    (spec.namespace.clone(), spec.queue.clone(), spec.kind.clone(), spec.workflow.is_some())
}

impl Board {
    pub(super) fn put(&mut self, row: Row) {
        self.rows.insert(row.task.id, row);
    }

    pub(super) fn get(&self, id: TaskId) -> Option<&Row> {
        self.rows.get(&id).filter(|row| !row.deleted)
    }

    pub(super) fn get_mut(&mut self, id: TaskId) -> Option<&mut Row> {
        self.rows.get_mut(&id)
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    /// What was written is written: goes on with rows that were loaded anew.
    pub(super) fn replace(&mut self, fresh: Self) {
        let before = std::mem::replace(&mut self.rows, fresh.rows);
        for (id, row) in before {
            if let Some(now) = self.rows.get_mut(&id) {
                now.notes = row.notes;
            }
        }
    }

    pub(super) fn count(&mut self, spec: &Spec, state: State, by: i64) {
        self.count_sort(sort_of(spec), state, by);
    }

    /// The same, by namespace, queue, kind, and whether they are steps.
    pub(super) fn count_sort(
        &mut self,
        (namespace, queue, kind, is_step): (Name, Name, Name, bool),
        state: State,
        by: i64,
    ) {
        *self.counts.entry((namespace, queue, kind, is_step, state.word())).or_default() += by;
    }

    /// Takes note of all that the core decided about one task, because its holder said so or somebody else.
    pub(super) fn apply(&mut self, task: &Task, changes: Changes, by_holder: bool) {
        self.touched.note(task, &changes);
        if let Some(notes) = changes.notes {
            self.tell(task.id, notes);
        }
        for change in changes.tasks {
            self.change(change, by_holder);
        }
        for id in changes.deleted {
            self.delete(id);
        }
        self.cleared.extend(changes.cleared);
        for (task, payload, entry) in changes.created {
            self.create(task, payload, None, entry);
        }
    }

    /// Takes note of what the core decided about one task, because its holder said so or somebody else.
    pub(super) fn change(&mut self, change: TaskChange, by_holder: bool) {
        let Some(row) = self.rows.get_mut(&change.id) else { return };
        let moves = change.moves_lane(&row.task);
        let is_opened = self.rings.note(&row.task, &change.after, by_holder);
        let before = row.change(change);
        if is_opened {
            self.opened.push(Opened::known(row.seq, &row.task));
        }
        let Task { spec, status, .. } = &row.task;
        if moves {
            self.lanes.extend(lane_of(spec));
        }
        let (sort, state) = (sort_of(spec), status.state);
        self.count_sort(sort.clone(), before.state, -1);
        self.count_sort(sort, state, 1);
    }

    /// Takes note of tasks that were given slots.
    pub(super) fn open(&mut self, opened: Vec<Opened>) {
        self.rings.claimable += opened.len() as u64;
        self.opened.extend(opened);
    }

    pub(super) fn tell(&mut self, id: TaskId, notes: Notes) {
        if let Some(row) = self.rows.get_mut(&id) {
            (row.notes, row.told) = (Some(notes), true);
        }
    }

    /// Where items are that go, and have not been looked for yet.
    pub(super) fn take_cleared(&mut self) -> Vec<RangeInclusive<TaskId>> {
        std::mem::take(&mut self.cleared)
    }

    /// Whether a task is in a list that goes, and has not been looked for yet. One of its successor may have
    /// the same id.
    pub(super) fn is_cleared(&self, id: TaskId) -> bool {
        self.cleared.iter().any(|range| range.contains(&id))
    }

    /// Takes note of a task that goes with all that belongs to it.
    pub(super) fn clear(&mut self, seq: i64, task: &Task) {
        self.touched.note_gone(task);
        self.count(&task.spec, task.status.state, -1);
        self.rows.remove(&task.id);
        if task.status.slot || task.is_parked() {
            self.lanes.extend(lane_of(&task.spec));
        }
        self.gone.push(seq);
    }

    /// New tasks that are not written yet.
    pub(super) fn unborn(&self) -> impl Iterator<Item = TaskId> {
        self.created.iter().map(|begun| begun.task.id)
    }

    /// Whether tasks in this range are made or changed, and that is not written yet.
    pub(super) fn is_unwritten(&self, range: &RangeInclusive<TaskId>) -> bool {
        let is_changed = |row: &Row| row.is_changed() && range.contains(&row.task.id);
        self.unborn().any(|id| range.contains(&id)) || self.rows.values().any(is_changed)
    }

    /// Takes note of a new task of a workflow.
    pub(super) fn create(&mut self, task: Task, payload: Json, result: Option<Json>, entry: Entry) {
        self.begin(&task);
        self.created.push(Begun { task, payload, result, entry });
    }

    /// Takes note of what a new task means to others.
    pub(super) fn begin(&mut self, task: &Task) {
        self.count(&task.spec, task.status.state, 1);
        if task.is_claimable() {
            self.rings.claimable += 1;
            let opened = Opened::new(task);
            // Most are at the same place: after those of their rank.
            if self.opened.last() != Some(&opened) {
                self.opened.push(opened);
            }
        }
        self.rings.timed += u64::from(task.status.due_at.is_some());
        if task.is_parked() {
            self.lanes.extend(lane_of(&task.spec));
        }
    }

    pub(super) fn delete(&mut self, id: TaskId) {
        let Some(row) = self.rows.get_mut(&id) else { return };
        row.deleted = true;
        let (spec, state) = (row.task.spec.clone(), row.task.status.state);
        self.count(&spec, state, -1);
    }

    /// Sends all that is to be written. Says how many statements that were.
    pub(super) async fn send(&mut self, tx: &mut Tx) -> Sent {
        let mut rows: Vec<&Row> = self.rows.values().collect();
        rows.sort_unstable_by_key(|row| row.seq);
        let mut sent = Sent::default();
        let changed = |was_over: bool, is_over: bool| -> Vec<&Row> {
            let rows = rows.iter().copied().filter(|row| row.is_changed() && !row.deleted);
            rows.filter(|row| row.was_over == was_over && row.task.status.state.is_final() == is_over)
                .collect()
        };
        for (rows, which) in [
            (changed(false, true), (|sql| &sql.end) as super::tx::Which),
            (changed(true, true), |sql| &sql.amend),
        ] {
            if !rows.is_empty() {
                tx.send(which, ended_args(&rows)).await;
                sent.statements += 1;
            }
        }
        let reopened = changed(true, false);
        if !reopened.is_empty() {
            tx.send(|sql| &sql.reopen, live_args(&reopened)).await;
            sent.statements += 1;
        }
        let updated = changed(false, false);
        if !updated.is_empty() {
            tx.send(|sql| &sql.update, live_args(&updated)).await;
            sent.update = Some(sent.statements);
            sent.statements += 1;
        }
        let deleted = rows.iter().filter(|row| row.deleted).map(|row| row.seq);
        let deleted: Vec<i64> = deleted.chain(std::mem::take(&mut self.gone)).collect();
        if !deleted.is_empty() {
            tx.send(|sql| &sql.delete, args![deleted.clone() => INT8_ARRAY]).await;
            tx.send(|sql| &sql.delete_history, args![deleted => INT8_ARRAY]).await;
            sent.statements += 2;
        }
        let kept = rows.iter().filter(|row| !row.deleted);
        let told = kept.clone().filter(|row| !row.past.plain);
        let entries: Vec<(i64, &Entry)> =
            told.flat_map(|row| row.entries.iter().map(|entry| (row.seq, entry))).collect();
        if !entries.is_empty() {
            tx.send(|sql| &sql.history, history_args(&entries)).await;
            sent.statements += 1;
        }
        let told: Vec<(i64, &Notes)> =
            kept.filter(|row| row.told).filter_map(|row| Some((row.seq, row.notes.as_ref()?))).collect();
        if !told.is_empty() {
            tx.send(|sql| &sql.put_notes, notes_args(&told)).await;
            sent.statements += 1;
        }
        sent.statements += usize::from(send_counts(tx, &std::mem::take(&mut self.counts)).await);
        let created = std::mem::take(&mut self.created);
        if !created.is_empty() {
            tx.send(|sql| &sql.start, start_args(&created)).await;
            sent.statements += 1;
        }
        for workflow in self.workflows.values_mut() {
            sent.statements += workflow.send(tx).await;
        }
        sent.statements += workflow_row::send_tally(tx, std::mem::take(&mut self.tally)).await;
        sent
    }
}

/// What [`Board::send`] sent.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) statements: usize,
    /// Which of them answers with the new places of rows.
    pub(super) update: Option<usize>,
}

/// Adds to the numbers of tasks; says whether there was anything to add.
pub(super) async fn send_counts(tx: &mut Tx, counts: &BTreeMap<Sort, i64>) -> bool {
    let changed: Vec<(&Sort, i64)> =
        counts.iter().filter(|(_, by)| **by != 0).map(|(sort, by)| (sort, *by)).collect();
    if changed.is_empty() {
        return false;
    }
    let column = |of: fn(&Sort) -> &str| -> Vec<String> {
        changed.iter().map(|(sort, _)| of(sort).to_owned()).collect()
    };
    let values = args![
        column(|sort| &sort.0) => TEXT_ARRAY,
        column(|sort| &sort.1) => TEXT_ARRAY,
        column(|sort| &sort.2) => TEXT_ARRAY,
        changed.iter().map(|(sort, _)| sort.3).collect::<Vec<bool>>() => BOOL_ARRAY,
        column(|sort| sort.4) => TEXT_ARRAY,
        changed.iter().map(|(_, by)| *by).collect::<Vec<i64>>() => INT8_ARRAY,
    ];
    tx.send(|sql| &sql.count, values).await;
    true
}

fn each<T>(rows: &[&Row], of: impl Fn(&Row) -> T) -> Vec<T> {
    rows.iter().map(|row| of(row)).collect()
}

fn status<T>(rows: &[&Row], of: impl Fn(&Status) -> T) -> Vec<T> {
    rows.iter().map(|row| of(&row.task.status)).collect()
}

fn moments(rows: &[&Row], of: impl Fn(&Status) -> Option<Timestamp>) -> Vec<Option<SystemTime>> {
    status(rows, |status| of(status).map(moment))
}

pub(super) fn small(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Which rows, how they were, and what of them is the same whether a task is over or not.
fn first_args(rows: &[&Row]) -> Args {
    args![
        each(rows, |row| row.at.clone()) => TEXT_ARRAY,
        each(rows, |row| row.seq) => INT8_ARRAY,
        each(rows, |row| small(row.version)) => INT4_ARRAY,
        status(rows, |status| status.state.word()) => TEXT_ARRAY,
        status(rows, |status| i64::from(status.attempt)) => INT8_ARRAY,
        status(rows, |status| i64::from(status.lease)) => INT8_ARRAY,
        status(rows, |status| status.worker.as_ref().map(|worker| worker.as_str().to_owned())) => TEXT_ARRAY,
    ]
}

/// What `end` and `amend` are given.
fn ended_args(rows: &[&Row]) -> Args {
    let mut values = first_args(rows);
    values.extend(args![
        moments(rows, |status| status.claimed_at) => TIMESTAMPTZ_ARRAY,
        moments(rows, |status| status.started_at) => TIMESTAMPTZ_ARRAY,
        moments(rows, |status| status.finished_at) => TIMESTAMPTZ_ARRAY,
        moments(rows, |status| Some(status.updated_at)) => TIMESTAMPTZ_ARRAY,
        status(rows, |status| status.error.clone()) => TEXT_ARRAY,
        status(rows, |status| status.rank) => INT8_ARRAY,
        status(rows, |status| small(status.entries)) => INT4_ARRAY,
        each(rows, |row| row.past.plain) => BOOL_ARRAY,
        each(rows, |row| row.result.as_ref().map(ToString::to_string)) => TEXT_ARRAY,
        each(rows, |row| row.task.spec.workflow.is_some()) => BOOL_ARRAY,
        signed(rows.len()) => INT8,
    ]);
    values
}

/// What `update` and `reopen` are given.
fn live_args(rows: &[&Row]) -> Args {
    let mut values = first_args(rows);
    values.extend(args![
        moments(rows, |status| status.due_at) => TIMESTAMPTZ_ARRAY,
        moments(rows, |status| status.claimed_at) => TIMESTAMPTZ_ARRAY,
        moments(rows, |status| status.started_at) => TIMESTAMPTZ_ARRAY,
        moments(rows, |status| Some(status.updated_at)) => TIMESTAMPTZ_ARRAY,
        status(rows, |status| status.error.clone()) => TEXT_ARRAY,
        status(rows, |status| status.slot) => BOOL_ARRAY,
        status(rows, |status| status.rank) => INT8_ARRAY,
        status(rows, |status| small(status.entries)) => INT4_ARRAY,
        each(rows, |row| row.past.plain) => BOOL_ARRAY,
        status(rows, |status| status.waits.columns().0) => TEXT_ARRAY,
        status(rows, |status| status.waits.columns().1.map(i64::from)) => INT8_ARRAY,
        status(rows, |status| status.waits.columns().2.map(i64::from)) => INT8_ARRAY,
        signed(rows.len()) => INT8,
    ]);
    values
}

/// A task of a workflow as it begins.
#[derive(Clone, Debug)]
struct Begun {
    task: Task,
    payload: Json,
    result: Option<Json>,
    entry: Entry,
}

/// What `start` is given.
fn start_args(begun: &[Begun]) -> Args {
    fn each<T>(begun: &[Begun], of: impl Fn(&Task) -> T) -> Vec<T> {
        begun.iter().map(|one| of(&one.task)).collect()
    }
    fn lane<T>(begun: &[Begun], of: impl Fn(&Lane) -> T) -> Vec<Option<T>> {
        each(begun, |task| task.spec.lane.as_ref().map(&of))
    }
    let texts = |of: fn(&Begun) -> Option<String>| begun.iter().map(of).collect::<Vec<_>>();
    args![
        each(begun, |task| uuid(task.id)) => UUID_ARRAY,
        each(begun, |task| task.spec.namespace.to_string()) => TEXT_ARRAY,
        each(begun, |task| task.spec.queue.to_string()) => TEXT_ARRAY,
        each(begun, |task| task.spec.kind.to_string()) => TEXT_ARRAY,
        each(begun, |task| task.spec.priority) => INT4_ARRAY,
        lane(begun, |lane| lane.key().to_owned()) => TEXT_ARRAY,
        lane(begun, |lane| i64::from(lane.limit())) => INT8_ARRAY,
        lane(begun, Lane::is_strict) => BOOL_ARRAY,
        each(begun, |task| task.spec.timeout.map(|timeout| signed(timeout.as_micros()))) => INT8_ARRAY,
        each(begun, |task| task.spec.max_attempts.map(|most| i64::from(most.get()))) => INT8_ARRAY,
        each(begun, |task| to_json(&task.spec.retry)) => TEXT_ARRAY,
        each(begun, |task| moment(task.spec.created_at)) => TIMESTAMPTZ_ARRAY,
        texts(|one| Some(one.payload.to_string())) => TEXT_ARRAY,
        each(begun, |task| task.status.state.word()) => TEXT_ARRAY,
        each(begun, |task| task.status.rank) => INT8_ARRAY,
        texts(|one| one.entry.actor.clone()) => TEXT_ARRAY,
        texts(|one| one.entry.note.clone()) => TEXT_ARRAY,
        each(begun, |task| task.status.waits.columns().0) => TEXT_ARRAY,
        each(begun, |task| task.status.waits.columns().1.map(i64::from)) => INT8_ARRAY,
        each(begun, |task| task.status.waits.columns().2.map(i64::from)) => INT8_ARRAY,
        texts(|one| one.result.as_ref().map(ToString::to_string)) => TEXT_ARRAY,
        traces(begun.iter().map(|one| &one.task)) => TEXT_ARRAY,
        signed(begun.len()) => INT8,
    ]
}

fn history_args(entries: &[(i64, &Entry)]) -> Args {
    fn column<T>(entries: &[(i64, &Entry)], of: impl Fn(&Entry) -> T) -> Vec<T> {
        entries.iter().map(|(_, entry)| of(entry)).collect()
    }
    args![
        entries.iter().map(|(seq, _)| *seq).collect::<Vec<i64>>() => INT8_ARRAY,
        column(entries, |entry| small(entry.seq)) => INT4_ARRAY,
        column(entries, |entry| entry.to.word()) => TEXT_ARRAY,
        column(entries, |entry| moment(entry.at)) => TIMESTAMPTZ_ARRAY,
        column(entries, |entry| entry.reason.word()) => TEXT_ARRAY,
        column(entries, |entry| entry.actor.clone()) => TEXT_ARRAY,
        column(entries, |entry| entry.note.clone()) => TEXT_ARRAY,
    ]
}

fn notes_args(told: &[(i64, &Notes)]) -> Args {
    fn column<T>(told: &[(i64, &Notes)], of: impl Fn(&Notes) -> T) -> Vec<T> {
        told.iter().map(|(_, notes)| of(notes)).collect()
    }
    args![
        told.iter().map(|(seq, _)| *seq).collect::<Vec<i64>>() => INT8_ARRAY,
        column(told, |notes| i64::from(notes.lease)) => INT8_ARRAY,
        column(told, progress_to_json) => TEXT_ARRAY,
        column(told, |notes| notes.details.as_ref().map(ToString::to_string)) => TEXT_ARRAY,
        column(told, |notes| signed(notes.dropped)) => INT8_ARRAY,
        column(told, lines_to_json) => TEXT_ARRAY,
    ]
}
