//! Waiting for a task: it ends with the task, whatever becomes of it, and is easy on the store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::{Work, at, engine, ms, pass, planned, secs, work, worker};
use windlass::{By, Context, Error, Json, OutputError, Rejected, State, TaskError, Windlass, task_id};

fn rejected<T: std::fmt::Debug>(answer: Result<T, Error>) -> Rejected {
    answer.unwrap_err().rejected().cloned().expect("a refusal")
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_task() {
    let windlass = engine();
    let client = windlass.client();
    let id = client.submit(&work("a", 1_500)).await.unwrap().id;
    let handler = async |_: Context, work: Work| {
        pass(ms(work.takes)).await;
        Ok(work.takes)
    };
    let worker = worker(&windlass).handle(handler).start().await.unwrap();
    let finished = client.wait(id).await.unwrap();
    assert_eq!(finished.output::<u64>().unwrap(), 1_500);
    assert_eq!(finished.task.status.finished_at, Some(at(ms(1_500))));
    let now = tokio::time::Instant::now();
    assert_eq!(client.wait(id).await.unwrap(), finished);
    assert!(now.elapsed().is_zero(), "what is final is not waited for");
    worker.stop().await.unwrap();

    let unknown = task_id();
    assert_eq!(rejected(client.wait(unknown).await), Rejected::NotFound { task: unknown });
    let gone = client.submit(&work("b", 0)).await.unwrap().id;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.wait(gone).await }
    });
    pass(secs(30)).await;
    // Cancelled and deleted at once, so that the wait never sees it cancelled.
    client.cancel(gone, By::default()).await.unwrap();
    client.delete(gone).await.unwrap();
    assert_eq!(rejected(waiting.await.unwrap()), Rejected::NotFound { task: gone });
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_easy_on_a_busy_store() {
    let (plan, windlass) = planned();
    let client = windlass.client();
    let id = client.submit(&work("a", 0)).await.unwrap().id;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.wait(id).await }
    });
    for _ in 0..1_000 {
        let other = client.submit(&work("b", 0)).await.unwrap().id;
        client.cancel(other, By::default()).await.unwrap();
        pass(ms(1)).await;
    }
    let looks = plan.calls("task");
    assert!((40..=60).contains(&looks), "one look in 20 ms, but {looks} in 1 s");
    client.cancel(id, By::default()).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().task.status.state, State::Cancelled);
    plan.take_calls();
    let idle = client.submit(&work("c", 0)).await.unwrap().id;
    let waiting = tokio::spawn(async move { client.wait(idle).await });
    pass(secs(60)).await;
    let looks = plan.calls("task");
    assert!((10..=14).contains(&looks), "one look in 5 s, but {looks} in a minute");
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn an_output_is_what_was_returned_or_why_there_is_none() {
    let windlass = engine();
    let client = windlass.client();
    let handler = async |_: Context, work: Work| match &*work.name {
        "good" => Ok(vec![1, 2, 3]),
        _ => Err(TaskError::fail("no good")),
    };
    let worker = worker(&windlass).handle(handler).start().await.unwrap();
    let good = client.submit(&work("good", 0)).await.unwrap().id;
    let good = client.wait(good).await.unwrap();
    assert_eq!(good.output::<Vec<u8>>().unwrap(), [1, 2, 3]);
    let unfit = good.output::<String>().unwrap_err();
    assert!(matches!(&unfit, OutputError::Unfit { task, .. } if *task == good.task.id), "{unfit}");
    let bad = client.submit(&work("bad", 0)).await.unwrap().id;
    let none = client.wait(bad).await.unwrap().output::<Vec<u8>>().unwrap_err();
    assert_eq!(none, OutputError::None { task: bad, state: State::Failed, error: "no good".into() });
    client.resolve(bad, Some(Json::result("[7]").unwrap()), By::default()).await.unwrap();
    assert_eq!(client.wait(bad).await.unwrap().output::<Vec<u8>>().unwrap(), [7]);
    worker.stop().await.unwrap();
    let stopped = client.submit(&work("good", 0)).await.unwrap().id;
    client.cancel(stopped, By::default()).await.unwrap();
    let none = client.wait(stopped).await.unwrap().output::<Vec<u8>>().unwrap_err().to_string();
    assert!(none.contains("cancelled"), "{none}");
}

#[tokio::test(start_paused = true)]
async fn a_closed_store_ends_what_waits_for_it() {
    let windlass = Windlass::open("memory:").await.unwrap();
    let client = windlass.client();
    let id = client.submit(&work("a", 0)).await.unwrap().id;
    windlass.close().await.unwrap();
    assert_eq!(client.wait(id).await.unwrap_err(), Error::Closed);
    assert_eq!(client.submit(&work("a", 0)).await.unwrap_err(), Error::Closed);
}
