//! Idempotency: however often and however many at once submit a key, there is one task.
//!
//! Prints:
//! ```text
//! 100 submits: 1 created, 1 id
//! again after it is done: created false, completed
//! asked to be told: key_conflict
//! after it was deleted: created true
//! ```
#![allow(clippy::print_stdout)]

use std::collections::HashSet;

use windlass::{Windlass, task_id};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let windlass = Windlass::open("sqlite:windlass.db").await?;
    let client = windlass.client();
    let submit = || client.submit_json("invoice:send", r#"{"order":7}"#).key("order 7");

    let submits: Vec<_> = (0..100).map(|_| tokio::spawn(submit().into_future())).collect();
    let (mut created, mut ids) = (0, HashSet::new());
    for submitted in submits {
        let submitted = submitted.await??;
        created += usize::from(submitted.created);
        ids.insert(submitted.id);
    }
    println!("100 submits: {created} created, {} id", ids.len());

    let worker = windlass.worker().handle_kind("invoice:send", |_| async { Ok(true) }).start().await?;
    let id = ids.into_iter().next().unwrap_or_else(task_id);
    client.wait(id).await?;
    let again = submit().await?;
    println!("again after it is done: created {}, {}", again.created, again.state);

    let refused = submit().reject_duplicate().await.map_err(|error| error.code());
    println!("asked to be told: {}", refused.err().unwrap_or("accepted"));

    client.delete(id).await?;
    println!("after it was deleted: created {}", submit().await?.created);
    worker.stop().await?;
    Ok(())
}
