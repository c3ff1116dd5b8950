//! The first program of the README: submit, claim, finish.
#![allow(clippy::print_stdout)]

use windlass::{Claim, Command, Json, Name, NewTask, NewWorker, Outcome, Token};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = windlass::open("sqlite:windlass.db").await?;
    let kind = Name::kind("email:send")?;

    // Durable when this returns. The key makes it safe to repeat.
    let mut task = NewTask::new(windlass::task_id(), kind.clone(), Json::payload(r#"{"to":"ada"}"#)?);
    task.key = Some("welcome ada".into());
    let submitted = store.submit(vec![task]).await?;
    println!("{} created: {}", submitted[0].id, submitted[0].created);

    // A worker registers, claims what it can run, and reports with the lease it was given.
    let mut worker = NewWorker::new(windlass::worker_id());
    worker.kinds = vec![kind.clone()];
    let worker = store.register(worker).await?.id;
    let claim = Claim {
        worker: worker.clone(),
        namespace: Name::default(),
        queues: vec![Name::default()],
        kinds: vec![kind],
        limit: 10,
    };
    for claimed in store.claim(claim).await? {
        println!("sending {}", claimed.payload);
        let token = Token { task: claimed.task.id, lease: claimed.task.status.lease, worker: worker.clone() };
        let outcome = Outcome::Completed { result: Json::result(r#"{"sent":true}"#)? };
        store.apply(vec![Command::Finish { token, outcome, started_at: None }]).await?.remove(0)?;
    }
    store.deregister(&worker).await?;
    store.close().await?;
    Ok(())
}
