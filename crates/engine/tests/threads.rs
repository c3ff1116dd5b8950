//! The heartbeat has a thread of its own: a handler that blocks cannot starve it, and it does not outlive its
//! worker. Real threads, a real clock and a file.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::mpsc;
use std::time::{Duration, Instant};

use support::{Work, ms, secs, work};
use tokio::runtime::{Builder, Runtime};
use windlass::{Context, State, TaskError, Windlass};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Keeps the thread busy, as computing would.
fn block(time: Duration) {
    std::thread::sleep(time); // tidy: sleep: a handler that blocks the runtime's only thread is what is looked at
}

async fn done(_: Context, _: Work) -> Result<&'static str, TaskError> {
    Ok("by another")
}

#[test]
fn a_handler_that_blocks_the_only_thread_keeps_its_lease() {
    let directory = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", directory.path().join("windlass.db").display());
    let (begun, has_begun) = mpsc::channel();
    let blocked = {
        let address = address.clone();
        std::thread::spawn(move || {
            runtime().block_on(async move {
                let windlass = Windlass::open(&address).await.unwrap();
                let handler = move |_: Context, _: Work| {
                    begun.send(()).unwrap();
                    block(ms(2_500));
                    async { Ok::<_, TaskError>("by the first") }
                };
                let id = windlass.client().submit(&work("a", 0)).await.unwrap().id;
                let worker = windlass.worker().handle(handler).leads(false).dead_after(ms(900));
                let worker = worker.start().await.unwrap();
                let done = windlass.client().wait(id).await.unwrap();
                worker.stop().await.unwrap();
                windlass.close().await.unwrap();
                done
            })
        })
    };
    has_begun.recv_timeout(secs(30)).unwrap();
    // Another who would take it as soon as the lease can expire, on threads of its own.
    let second = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let windlass = second.block_on(Windlass::open(&address)).unwrap();
    let worker = second.block_on(windlass.worker().handle(done).start()).unwrap();
    let finished = blocked.join().unwrap();
    assert_eq!(finished.output::<String>().unwrap(), "by the first");
    let status = &finished.task.status;
    assert_eq!((status.state, status.attempt, status.lease), (State::Completed, 1, 1));
    second.block_on(worker.stop()).unwrap();
    second.block_on(windlass.close()).unwrap();
}

/// A program drops the runtime without having stopped the worker. Its handlers are gone, and so must its
/// leases be.
#[test]
fn a_heartbeat_does_not_outlive_the_runtime_of_its_worker() {
    let windlass = runtime().block_on(Windlass::open("memory:")).unwrap();
    let first = runtime();
    let id = first.block_on(async {
        let stuck = |_: Context, _: Work| std::future::pending::<Result<(), TaskError>>();
        let worker = windlass.worker().handle(stuck).leads(false).dead_after(ms(500)).start().await.unwrap();
        let id = windlass.client().submit(&work("a", 0)).await.unwrap().id;
        while !windlass.client().get(id).await.unwrap().unwrap().task.status.state.is_held() {
            tokio::task::yield_now().await;
        }
        std::mem::forget(worker);
        id
    });
    drop(first);
    let dropped = Instant::now();
    runtime().block_on(async {
        let worker = windlass.worker().handle(done).start().await.unwrap();
        let finished = tokio::time::timeout(secs(10), windlass.client().wait(id)).await;
        assert!(finished.is_ok(), "{:?} after its handlers are gone, its lease is alive", dropped.elapsed());
        worker.stop().await.unwrap();
    });
}

/// A handler that always has something to do leaves room for its own time limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_is_never_idle_runs_out_of_time() {
    let windlass = Windlass::open("memory:").await.unwrap();
    let worker = windlass.worker().patience(Duration::from_millis(50)).handle_kind("busy", |_| async {
        loop {
            tokio::task::consume_budget().await;
        }
        #[expect(unreachable_code, reason = "it says what the handler would return")]
        Ok(())
    });
    let worker = worker.start().await.unwrap();
    let client = windlass.client();
    let timeout = Duration::from_millis(50);
    let submitted = client.submit_json("busy", "null").timeout(timeout).max_attempts(1).await.unwrap();
    let finished = client.wait(submitted.id).await.unwrap();
    assert_eq!(finished.task.status.error.as_deref(), Some("timed out after 50ms"));
    worker.stop().await.unwrap();
}
