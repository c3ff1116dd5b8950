//! Accepting tasks.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tokio_postgres::Row;
use windlass_core::{
    Entry, Json, Lane, Name, NewTask, OnConflict, Rejected, Task, TaskId, Timestamp, WorkflowId,
};

use super::board::{Board, LaneKey, lane_of};
use super::failure::Failure;
use super::floor::Opened;
use super::row::{self, moment, signed, uuid};
use super::tx::{Args, Tx, args};
use super::workflow_row::wide;
use crate::error::Result;
use crate::request::{Submitted, in_batch};
use crate::text::to_json;

/// How many who wait in one lane are given slots by one statement.
const LINE: usize = 100;

/// Tasks as they begin, with their payloads and the first rows of their histories.
type Begun = (Task, Json, Entry);

/// Whether these can be submitted without looking first: if one of them exists already, the statement fails.
pub(super) fn is_plain(tasks: &[NewTask]) -> bool {
    let is_plain =
        |task: &NewTask| task.required_entity().is_none() && WorkflowId::reserving(task.id).is_none();
    tasks.iter().all(is_plain)
}

impl Tx {
    /// Submits tasks in the belief that they are all new: one round trip, with the commit.
    pub(super) async fn submit_new(
        &mut self,
        tasks: Vec<NewTask>,
        board: &mut Board,
    ) -> Result<Vec<Submitted>, Failure> {
        let now = self.inner.clock.now();
        let begun: Vec<Begun> = tasks.into_iter().map(|task| task.admit(now)).collect();
        let submitted = begun.iter().map(|(task, ..)| created(task)).collect();
        self.lock_lanes(&lanes(begun.iter().map(|(task, ..)| task))).await;
        self.send_new(&begun, board).await;
        Ok(submitted)
    }

    /// Submits tasks after a look at what is there: keys, ids, entities, workflows. Any refusal is that of
    /// the whole batch.
    pub(super) async fn submit_known(
        &mut self,
        tasks: Vec<NewTask>,
        board: &mut Board,
    ) -> Result<Vec<Submitted>, Failure> {
        let len = tasks.len();
        self.lock_lanes(&tasks.iter().filter_map(lane_of_new).collect()).await;
        let reserving = workflow_args(&tasks);
        let looks_for_workflows = reserving.is_some();
        if let Some(args) = reserving {
            self.send(|sql| &sql.find_workflows, args).await;
        }
        self.send(|sql| &sql.find_keys, key_args(&tasks)).await;
        self.send(|sql| &sql.find_ids, id_args(&tasks)).await;
        self.send(|sql| &sql.find_entities, entity_args(&tasks)).await;
        self.send(|sql| &sql.now, args![self.inner.clock.given() => TIMESTAMPTZ]).await;
        let answers = self.answers().await?;
        let [before @ .., keys, ids, entities, now] = &answers[..] else { return Err(Failure::Moved) };
        let now: Timestamp = row::time(&now.rows[0], 0)?;
        let mut known = Known::default();
        if let Some(workflows) = before.last().filter(|_| looks_for_workflows) {
            known.note_workflows(&workflows.rows)?;
        }
        known.note_keys(&keys.rows)?;
        known.note_ids(&ids.rows)?;
        known.note_entities(&entities.rows)?;
        let (mut begun, mut submitted) = (Vec::new(), Vec::with_capacity(len));
        for (index, task) in tasks.into_iter().enumerate() {
            match known.admit(task, now).map_err(|rejected| in_batch(len, index, rejected))? {
                Admitted::Known(one) => submitted.push(one),
                Admitted::New(new) => {
                    submitted.push(created(&new.0));
                    begun.push(*new);
                }
            }
        }
        self.send_new(&begun, board).await;
        Ok(submitted)
    }

    /// Sends new tasks, and the slots that they are given.
    async fn send_new(&mut self, begun: &[Begun], board: &mut Board) {
        if begun.is_empty() {
            return;
        }
        self.send(|sql| &sql.submit, new_args(begun)).await;
        begun.iter().for_each(|(task, ..)| board.begin(task));
    }

    /// Takes the locks of lanes, before anything in them is looked at.
    pub(super) async fn lock_lanes(&mut self, lanes: &BTreeSet<LaneKey>) {
        if !lanes.is_empty() {
            self.send(|sql| &sql.lock_lanes, lane_args(lanes)).await;
        }
    }

    /// Gives free slots of lanes to those who wait, until none is left to give or nobody to give it to. Says
    /// to whom.
    pub(super) async fn fill_lanes(&mut self, lanes: &BTreeSet<LaneKey>) -> Result<Vec<Opened>, Failure> {
        // Most have them already. Whoever comes into a lane without knowing it beforehand takes them now,
        // which is soon enough: what others have done until then is seen, and they will see this.
        self.lock_lanes(lanes).await;
        let mut given = Vec::new();
        while !lanes.is_empty() {
            let mut values = lane_args(lanes);
            values.extend(args![signed(LINE) => INT8]);
            let answer = self.ask(|sql| &sql.fill, values).await?;
            for row in &answer.rows {
                given.push(Opened::read(row)?);
            }
            if answer.rows.len() < LINE {
                break;
            }
        }
        Ok(given)
    }
}

fn lane_args(lanes: &BTreeSet<LaneKey>) -> Args {
    let (namespaces, keys): (Vec<String>, Vec<String>) = lanes.iter().cloned().unzip();
    args![namespaces => TEXT_ARRAY, keys => TEXT_ARRAY]
}

fn lanes<'t>(tasks: impl Iterator<Item = &'t Task>) -> BTreeSet<LaneKey> {
    tasks.filter_map(|task| lane_of(&task.spec)).collect()
}

fn lane_of_new(task: &NewTask) -> Option<LaneKey> {
    task.lane.as_ref().map(|lane| (task.namespace.to_string(), lane.key().to_owned()))
}

pub(super) fn created(task: &Task) -> Submitted {
    Submitted { id: task.id, state: task.status.state, created: true }
}

/// What is there already, by the names that new tasks give.
#[derive(Default)]
pub(super) struct Known {
    keys: HashMap<(Name, Name, String), (TaskId, windlass_core::State)>,
    ids: HashSet<TaskId>,
    entities: HashSet<(Name, String)>,
    workflows: HashSet<WorkflowId>,
}

pub(super) enum Admitted {
    Known(Submitted),
    New(Box<Begun>),
}

impl Known {
    pub(super) fn note_keys(&mut self, rows: &[Row]) -> Result<()> {
        let read = |row| {
            let key = (row::name(row, 0)?, row::name(row, 1)?, row::get(row, 2)?);
            Ok((key, (row::id(row, 3)?, row::parse(row, 4)?)))
        };
        self.keys.extend(readable(rows.iter().map(read))?);
        Ok(())
    }

    pub(super) fn note_ids(&mut self, rows: &[Row]) -> Result<()> {
        self.ids.extend(readable(rows.iter().map(|row| row::id(row, 0)))?);
        Ok(())
    }

    pub(super) fn note_entities(&mut self, rows: &[Row]) -> Result<()> {
        self.entities.extend(readable(rows.iter().map(|row| Ok((row::name(row, 0)?, row::get(row, 1)?))))?);
        Ok(())
    }

    pub(super) fn note_workflows(&mut self, rows: &[Row]) -> Result<()> {
        self.workflows.extend(readable(rows.iter().map(|row| Ok(WorkflowId::of(row::id(row, 0)?))))?);
        Ok(())
    }

    /// What becomes of one task, as far as is known.
    pub(super) fn admit(&mut self, task: NewTask, now: Timestamp) -> Result<Admitted, Rejected> {
        let key = task.key.clone().map(|key| (task.namespace.clone(), task.kind.clone(), key));
        if let Some((.., text)) = &key
            && let Some(&(id, state)) = key.as_ref().and_then(|key| self.keys.get(key))
        {
            return match task.on_conflict {
                OnConflict::Return => Ok(Admitted::Known(Submitted { id, state, created: false })),
                OnConflict::Reject => Err(Rejected::KeyConflict { key: text.clone(), existing: id }),
            };
        }
        if let Some(workflow) = WorkflowId::reserving(task.id)
            && self.workflows.contains(&workflow)
        {
            return Err(Rejected::IdReserved { task: task.id, workflow });
        }
        if !self.ids.insert(task.id) {
            return Err(Rejected::IdConflict { task: task.id });
        }
        if let Some(entity) = task.required_entity()
            && !self.entities.contains(&(task.namespace.clone(), entity.as_str().to_owned()))
        {
            return Err(Rejected::UnknownEntity { entity: entity.as_str().into() });
        }
        let begun = task.admit(now);
        if let Some(key) = key {
            self.keys.insert(key, (begun.0.id, begun.0.status.state));
        }
        Ok(Admitted::New(Box::new(begun)))
    }
}

/// All of them, or why one cannot be read.
fn readable<T>(rows: impl Iterator<Item = Result<T, row::Foreign>>) -> Result<Vec<T>> {
    rows.collect::<Result<_, _>>().map_err(|error| Failure::from(error).error())
}

pub(super) fn id_args(tasks: &[NewTask]) -> Args {
    args![tasks.iter().map(|task| uuid(task.id)).collect::<Vec<_>>() => UUID_ARRAY]
}

/// The workflows that would reserve ids of these tasks, if there are any.
pub(super) fn workflow_args(tasks: &[NewTask]) -> Option<Args> {
    let ids: Vec<_> = tasks.iter().filter_map(|task| WorkflowId::reserving(task.id)).map(wide).collect();
    (!ids.is_empty()).then(|| args![ids => UUID_ARRAY])
}

pub(super) fn key_args(tasks: &[NewTask]) -> Args {
    let keyed: BTreeMap<(&Name, &Name, &String), ()> = tasks
        .iter()
        .filter_map(|task| Some(((&task.namespace, &task.kind, task.key.as_ref()?), ())))
        .collect();
    args![
        keyed.keys().map(|(namespace, ..)| namespace.to_string()).collect::<Vec<_>>() => TEXT_ARRAY,
        keyed.keys().map(|(_, kind, _)| kind.to_string()).collect::<Vec<_>>() => TEXT_ARRAY,
        keyed.keys().map(|(.., key)| (*key).clone()).collect::<Vec<_>>() => TEXT_ARRAY,
    ]
}

pub(super) fn entity_args(tasks: &[NewTask]) -> Args {
    let required: Vec<(String, String)> = tasks
        .iter()
        .filter_map(|task| Some((task.namespace.to_string(), task.required_entity()?.as_str().to_owned())))
        .collect();
    let (namespaces, entities): (Vec<String>, Vec<String>) = required.into_iter().unzip();
    args![namespaces => TEXT_ARRAY, entities => TEXT_ARRAY]
}

/// The traces of tasks; nothing at all if none of them has one, which a list that ends early means.
pub(super) fn traces<'t>(tasks: impl Iterator<Item = &'t Task>) -> Vec<Option<String>> {
    let all: Vec<_> = tasks.map(|task| task.spec.traceparent).collect();
    let is_empty = all.iter().all(Option::is_none);
    all.into_iter().filter(|_| !is_empty).map(|one| one.map(|one| one.to_string())).collect()
}

/// What `submit` is given.
fn new_args(begun: &[Begun]) -> Args {
    fn each<T>(begun: &[Begun], of: impl Fn(&Task) -> T) -> Vec<T> {
        begun.iter().map(|(task, ..)| of(task)).collect()
    }
    fn lane<T>(begun: &[Begun], of: impl Fn(&Lane) -> T) -> Vec<Option<T>> {
        each(begun, |task| task.spec.lane.as_ref().map(&of))
    }
    let micros = |duration: std::time::Duration| signed(duration.as_micros());
    args![
        each(begun, |task| uuid(task.id)) => UUID_ARRAY,
        each(begun, |task| task.spec.namespace.to_string()) => TEXT_ARRAY,
        each(begun, |task| task.spec.queue.to_string()) => TEXT_ARRAY,
        each(begun, |task| task.spec.kind.to_string()) => TEXT_ARRAY,
        each(begun, |task| task.spec.priority) => INT4_ARRAY,
        each(begun, |task| i64::from(task.spec.ageing.per_hour)) => INT8_ARRAY,
        each(begun, |task| i64::from(task.spec.ageing.per_retry)) => INT8_ARRAY,
        each(begun, |task| task.spec.key.clone()) => TEXT_ARRAY,
        lane(begun, |lane| lane.key().to_owned()) => TEXT_ARRAY,
        lane(begun, |lane| i64::from(lane.limit())) => INT8_ARRAY,
        lane(begun, Lane::is_strict) => BOOL_ARRAY,
        each(begun, |task| task.spec.timeout.map(micros)) => INT8_ARRAY,
        each(begun, |task| to_json(&task.spec.tags)) => TEXT_ARRAY,
        each(begun, |task| task.spec.max_attempts.map(|most| i64::from(most.get()))) => INT8_ARRAY,
        each(begun, |task| to_json(&task.spec.retry)) => TEXT_ARRAY,
        each(begun, |task| moment(task.spec.created_at)) => TIMESTAMPTZ_ARRAY,
        begun.iter().map(|(_, payload, _)| payload.to_string()).collect::<Vec<_>>() => TEXT_ARRAY,
        each(begun, |task| task.status.state.word()) => TEXT_ARRAY,
        each(begun, |task| task.status.due_at.map(moment)) => TIMESTAMPTZ_ARRAY,
        each(begun, |task| task.status.rank) => INT8_ARRAY,
        begun.iter().map(|(.., entry)| entry.actor.clone()).collect::<Vec<_>>() => TEXT_ARRAY,
        traces(begun.iter().map(|(task, ..)| task)) => TEXT_ARRAY,
        signed(begun.len()) => INT8,
    ]
}
