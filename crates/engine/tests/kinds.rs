//! Labels of metrics stay few, however many kinds somebody invents. In a process of its own: what is
//! remembered of kinds is the process's.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use support::{engine, pass, secs, worker};
use windlass::{By, Context, TaskError};

async fn handler(_: Context, _: support::Work) -> Result<(), TaskError> {
    Ok(())
}

#[test]
fn a_thousand_kinds_are_told_as_two_hundred_and_the_rest() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let windlass = engine();
            let client = windlass.client();
            let worker = worker(&windlass).handle(handler).start().await.unwrap();
            for n in 0..1_000 {
                let id = client.submit_json(&format!("kind-{n}"), "{}").await.unwrap().id;
                if n % 2 == 0 {
                    client.cancel(id, By::default()).await.unwrap();
                }
            }
            pass(secs(11)).await;
            worker.stop().await.unwrap();
        });
    });
    let (mut kinds, mut sums) = (BTreeMap::<String, BTreeSet<String>>::new(), BTreeMap::<String, u64>::new());
    let mut others = BTreeMap::<String, u64>::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let name = key.key().name().to_owned();
        let Some(kind) = key.key().labels().find(|label| label.key() == "kind") else { continue };
        let number = match value {
            DebugValue::Counter(number) => number,
            DebugValue::Gauge(number) => format!("{number}").parse().unwrap(),
            DebugValue::Histogram(_) => continue,
        };
        kinds.entry(name.clone()).or_default().insert(kind.value().to_owned());
        *sums.entry(name.clone()).or_default() += number;
        if kind.value() == "other" {
            others.insert(name, number);
        }
    }
    for (name, sum, of_others) in [
        ("windlass_tasks_enqueued_total", 1_000, 800),
        ("windlass_tasks_completed_total", 500, 400),
        ("windlass_tasks_pending", 500, 400),
    ] {
        assert!(kinds[name].len() <= 201, "{name} has {} kinds", kinds[name].len());
        assert_eq!((sums[name], others[name]), (sum, of_others), "{name}");
    }
    assert_eq!(kinds["windlass_tasks_enqueued_total"].len(), 201);
}
