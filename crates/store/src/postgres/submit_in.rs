//! Submitting inside a transaction of the caller's: rolled back means never there, committed means woken.

use serde_json::{Map, Value, json};
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};
use windlass_core::{Lane, NewTask, OnConflict, Start, Timestamp};

use super::failure::Failure;
use super::row;
use super::submit::{Admitted, Known, created, entity_args, id_args, key_args, workflow_args};
use super::tx::Args;
use super::{PostgresStore, Statement};
use crate::error::{Error, Result};
use crate::request::{Submitted, check_batch, in_batch};

impl PostgresStore {
    /// Submits tasks as part of a transaction on a connection of the caller's to the same database, by the
    /// SQL function `submit_many`. They exist, and workers are woken, when the caller commits. A task that is
    /// refused leaves the transaction usable; an error of the database does not.
    ///
    /// ```no_run
    /// # async fn order(
    /// #     client: &mut tokio_postgres::Client,
    /// #     store: &windlass_store::PostgresStore,
    /// #     task: windlass_core::NewTask,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// let transaction = client.transaction().await?;
    /// transaction.execute("INSERT INTO orders (customer) VALUES ($1)", &[&"ada"]).await?;
    /// store.submit_in(&transaction, vec![task]).await?;
    /// transaction.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn submit_in(
        &self,
        transaction: &Transaction<'_>,
        tasks: Vec<NewTask>,
    ) -> Result<Vec<Submitted>> {
        check_batch(&tasks)?;
        let sql = &self.inner.sql;
        let mut known = Known::default();
        if let Some(args) = workflow_args(&tasks) {
            known.note_workflows(&ask(transaction, &sql.find_workflows, args).await?)?;
        }
        known.note_keys(&ask(transaction, &sql.find_keys, key_args(&tasks)).await?)?;
        known.note_ids(&ask(transaction, &sql.find_ids, id_args(&tasks)).await?)?;
        known.note_entities(&ask(transaction, &sql.find_entities, entity_args(&tasks)).await?)?;
        let text = format!("[{}]", tasks.iter().map(document).collect::<Vec<_>>().join(","));
        let (len, now) = (tasks.len(), self.inner.clock.now());
        let mut submitted = Vec::with_capacity(len);
        for (index, task) in tasks.into_iter().enumerate() {
            let admitted = known.admit(task, now).map_err(|rejected| in_batch(len, index, rejected))?;
            submitted.push(match admitted {
                Admitted::Known(one) => one,
                Admitted::New(begun) => created(&begun.0),
            });
        }
        let call = format!("SELECT id, created FROM {}.submit_many($1::text::json)", self.inner.schema);
        let rows = transaction.query_typed(&call, &[(&text, Type::TEXT)]).await;
        let rows = rows.map_err(|error| Failure::from(error).error())?;
        for (one, row) in submitted.iter_mut().zip(&rows) {
            let read = (|| Ok((row::id(row, 0)?, row::get(row, 1)?)))();
            (one.id, one.created) = read.map_err(|error: row::Foreign| Failure::from(error).error())?;
        }
        Ok(submitted)
    }
}

async fn ask(
    transaction: &Transaction<'_>,
    statement: &Statement,
    args: Args,
) -> Result<Vec<tokio_postgres::Row>> {
    let values: Vec<(&(dyn ToSql + Sync), Type)> =
        args.iter().map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone())).collect();
    let rows = transaction.query_typed(&statement.text, &values).await;
    rows.map_err(|error| match Failure::from(error).error() {
        // The caller's connection, not the store's.
        Error::Unavailable(why) => Error::Unavailable(format!("the caller's transaction: {why}")),
        error => error,
    })
}

/// A task as `submit_many` takes it. The payload is the very text that was given.
fn document(task: &NewTask) -> String {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| drop(fields.insert(name.into(), value));
    let micros = |duration: std::time::Duration| json!(format!("{} microseconds", duration.as_micros()));
    let moment = |at: Timestamp| json!(at.to_string());
    put("id", json!(row::uuid(task.id).to_string()));
    put("kind", json!(&*task.kind));
    put("queue", json!(&*task.queue));
    put("namespace", json!(&*task.namespace));
    put("priority", json!(task.priority));
    put("key", json!(task.key));
    put("on_conflict", json!(if task.on_conflict == OnConflict::Reject { "reject" } else { "return" }));
    match task.start {
        Start::Now => {}
        Start::At(at) => put("run_at", moment(at)),
        Start::After(delay) => put("delay", micros(delay)),
    }
    if let Some(lane) = &task.lane {
        match lane.entity() {
            Some(entity) => put("entity", json!(entity.as_str())),
            None => {
                put("lane", json!(lane.key()));
                put("lane_limit", json!(lane.limit()));
            }
        }
        put("lane_strict", json!(Lane::is_strict(lane)));
    }
    put("require_entity", json!(task.require_entity));
    if let Some(timeout) = task.timeout {
        put("timeout", micros(timeout));
    }
    put("tags", json!(task.tags));
    put("max_attempts", json!(task.max_attempts));
    put("retry", serde_json::to_value(task.retry).unwrap_or_default());
    put("ageing_per_hour", json!(task.ageing.per_hour));
    put("ageing_per_retry", json!(task.ageing.per_retry));
    put("actor", json!(task.actor));
    if let Some(traceparent) = task.traceparent {
        put("traceparent", json!(traceparent.to_string()));
    }
    let rest = Value::Object(fields).to_string();
    format!("{{\"payload\":{},{}", task.payload, &rest[1..])
}
