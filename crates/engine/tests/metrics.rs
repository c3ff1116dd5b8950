//! What is counted and measured: each metric with its labels and numbers, and the page that lists them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, panic};

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use support::{Fault, Spy, Work, engine, memory, ms, pass, planned, secs, spied, unsent, work, worker};
use windlass::{By, Context, TaskError, Windlass};

/// Runs `test` on a paused clock and gives what was recorded: the value by `name` or `name{label=value,…}`.
/// Of histograms the samples.
fn recorded(test: impl Future<Output = ()>) -> Recorded {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(test));
    let mut values = BTreeMap::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let mut labels: Vec<_> =
            key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        labels.sort();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let samples = match value {
            DebugValue::Counter(number) => vec![f64::from(u32::try_from(number).unwrap())],
            DebugValue::Gauge(number) => vec![number.into_inner()],
            DebugValue::Histogram(samples) => samples.into_iter().map(f64::from).collect(),
        };
        values.insert(format!("{}{labels}", key.key().name()), samples);
    }
    Recorded(values)
}

struct Recorded(BTreeMap<String, Vec<f64>>);

impl Recorded {
    /// A counter or a gauge; 0 if nothing was recorded.
    fn of(&self, key: &str) -> f64 {
        self.0.get(key).map_or(0.0, |values| values[0])
    }

    fn samples(&self, key: &str) -> Vec<f64> {
        let mut samples = self.0.get(key).cloned().unwrap_or_default();
        samples.sort_by(f64::total_cmp);
        samples
    }
}

#[track_caller]
fn assert_is(recorded: &Recorded, expected: &[(&str, u32)]) {
    for (key, expected) in expected {
        let actual = recorded.of(key);
        assert!(
            (actual - f64::from(*expected)).abs() < 1e-9,
            "{key} is {actual}, not {expected}: {:?}",
            recorded.0
        );
    }
}

async fn handler(context: Context, work: Work) -> Result<(), TaskError> {
    pass(ms(work.takes)).await;
    match &*work.name {
        "fail" => Err(TaskError::fail("f")),
        "always" => Err(TaskError::retry("a")),
        "snooze" if context.lease() == 1 => Err(TaskError::snooze(secs(1))),
        "cancel" => Err(TaskError::cancel("c")),
        "panic" => panic!("on purpose"),
        _ => Ok(()),
    }
}

#[test]
fn the_twelve_are_told_with_their_labels_and_numbers() {
    let recorded = recorded(async {
        let windlass = engine();
        let client = windlass.client();
        let worker = worker(&windlass).handle(handler).pool(7).start().await.unwrap();
        for name in ["done", "done", "fail", "always", "snooze", "cancel"] {
            client.submit(&work(name, 2_000)).key(name).max_attempts(2).await.unwrap();
        }
        client.submit_json("other", "{}").await.unwrap();
        client.submit(&work("long", 60_000)).await.unwrap();
        client.submit(&work("long", 60_000)).await.unwrap();
        pass(secs(25)).await;
        std::mem::forget(worker);
    });
    assert_is(
        &recorded,
        &[
            ("windlass_tasks_enqueued_total{kind=work}", 7),
            ("windlass_tasks_enqueued_total{kind=other}", 1),
            ("windlass_tasks_completed_total{kind=work,state=completed}", 2),
            ("windlass_tasks_completed_total{kind=work,state=failed}", 1),
            ("windlass_tasks_completed_total{kind=work,state=dead_letter}", 1),
            ("windlass_tasks_completed_total{kind=work,state=cancelled}", 1),
            ("windlass_task_retries_total{attempt=1,kind=work}", 1),
            ("windlass_tasks_dead_letter_total{kind=work}", 1),
            ("windlass_tasks_pending{kind=work}", 0),
            ("windlass_tasks_pending{kind=other}", 1),
            ("windlass_tasks_running{kind=work}", 2),
            ("windlass_tasks_running{kind=other}", 0),
            ("windlass_worker_pool_active", 2),
            ("windlass_worker_pool_capacity", 7),
            ("windlass_workers", 1),
            ("windlass_leader", 1),
        ],
    );
    let took =
        |outcome| recorded.samples(&format!("windlass_task_duration_seconds{{kind=work,outcome={outcome}}}"));
    assert_eq!(took("completed"), [2.0, 2.0]);
    assert_eq!(took("failed"), [2.0, 2.0, 2.0]);
    assert_eq!((took("snoozed"), took("cancelled")), (vec![2.0], vec![2.0]));
    assert!(recorded.samples("windlass_claim_duration_seconds").len() > 5);
    check_labels(&recorded);
}

#[test]
fn who_does_not_lead_any_more_says_so() {
    let recorded = recorded(async {
        let windlass = engine();
        let worker = worker(&windlass).handle(handler).start().await.unwrap();
        windlass.client().submit(&work("a", 1_000)).await.unwrap();
        pass(ms(500)).await;
        worker.stop().await.unwrap();
    });
    assert_is(&recorded, &[("windlass_leader", 0), ("windlass_worker_pool_active", 0)]);
}

/// Whether it ends by itself, panics or is dropped: the time of the handler is gone.
#[test]
fn every_attempt_is_measured() {
    let recorded = recorded(async {
        let windlass = engine();
        let client = windlass.client();
        let worker = worker(&windlass).handle(handler).start().await.unwrap();
        for (name, takes) in [("done", 1_000), ("panic", 1_000), ("late", 600_000)] {
            let id = client.submit(&work(name, takes)).max_attempts(1).timeout(secs(9)).await.unwrap().id;
            client.wait(id).await.unwrap();
        }
        worker.stop().await.unwrap();
    });
    assert_eq!(recorded.samples("windlass_task_duration_seconds{kind=work,outcome=completed}"), [1.0]);
    let failed = recorded.samples("windlass_task_duration_seconds{kind=work,outcome=failed}");
    assert!(failed.len() == 2 && failed[1] >= 9.0, "{failed:?}");
}

#[test]
fn retries_are_counted_by_attempt_up_to_ten() {
    let recorded = recorded(async {
        let windlass = engine();
        let worker = worker(&windlass).handle(handler).start().await.unwrap();
        let id = windlass.client().submit(&work("always", 0)).max_attempts(14).await.unwrap().id;
        windlass.client().wait(id).await.unwrap();
        worker.stop().await.unwrap();
    });
    for attempt in 1..=9 {
        assert_is(&recorded, &[(&format!("windlass_task_retries_total{{attempt={attempt},kind=work}}"), 1)]);
    }
    assert_is(&recorded, &[("windlass_task_retries_total{attempt=10,kind=work}", 4)]);
    assert!(!recorded.0.contains_key("windlass_task_retries_total{attempt=11,kind=work}"));
}

#[test]
fn what_is_submitted_is_counted_once() {
    let recorded = recorded(async {
        let (plan, windlass) = planned();
        let client = windlass.client();
        let batch = (0..5).map(|_| client.submit(&work("a", 0)).build().unwrap()).collect();
        client.submit_all(batch).await.unwrap();
        client.submit(&work("a", 0)).key("k").await.unwrap();
        client.submit(&work("a", 0)).key("k").await.unwrap();
        plan.once("submit", unsent());
        client.submit(&work("a", 0)).await.unwrap();
        assert!(client.submit_json("work", "{}").reject_duplicate().key("k").await.is_err());
        client.schedule("s", "@daily", client.submit(&work("a", 0))).await.unwrap();
        client.run_schedule("s").await.unwrap();
    });
    let expected = [
        ("windlass_tasks_enqueued_total{kind=work}", 8),
        ("windlass_store_errors_total{code=key_conflict,verb=submit}", 1),
        ("windlass_store_errors_total{code=unknown_outcome,verb=submit}", 1),
    ];
    assert_is(&recorded, &expected);
    assert_eq!(recorded.samples("windlass_store_duration_seconds{verb=fire}").len(), 1);
    check_labels(&recorded);
}

#[test]
fn a_task_is_counted_when_it_ends_and_not_when_it_is_deleted() {
    let recorded = recorded(async {
        let windlass = engine();
        let client = windlass.client();
        let id = client.submit(&work("a", 0)).await.unwrap().id;
        client.cancel(id, By::default()).await.unwrap();
        client.cancel(id, By::default()).await.unwrap();
        client.delete(id).await.unwrap();
    });
    assert_is(&recorded, &[("windlass_tasks_completed_total{kind=work,state=cancelled}", 1)]);
}

/// A gauge that nobody sets any more would show for ever what was true once.
#[test]
fn a_kind_that_is_gone_has_no_tasks() {
    let recorded = recorded(async {
        let windlass = engine();
        let client = windlass.client();
        let worker = worker(&windlass).handle(handler).start().await.unwrap();
        let id = client.submit_json("gone", "{}").await.unwrap().id;
        pass(secs(11)).await;
        client.cancel(id, By::default()).await.unwrap();
        client.delete(id).await.unwrap();
        pass(secs(11)).await;
        worker.stop().await.unwrap();
    });
    assert!(recorded.0.contains_key("windlass_tasks_pending{kind=gone}"), "it was told once");
    assert_is(&recorded, &[("windlass_tasks_pending{kind=gone}", 0)]);
}

#[test]
fn a_missed_wake_up_is_counted() {
    let recorded = recorded(async {
        let windlass = Windlass::new(Spy::deaf(memory()));
        let worker = worker(&windlass).handle(handler).poll(secs(20)).start().await.unwrap();
        pass(secs(1)).await;
        windlass.client().submit(&work("a", 0)).await.unwrap();
        pass(secs(100)).await;
        worker.stop().await.unwrap();
    });
    assert_is(&recorded, &[("windlass_missed_wakeups_total", 1)]);
    check_labels(&recorded);
}

/// The worker was woken, but had no handler free; that it had also looked by itself meanwhile does not
/// matter.
#[test]
fn a_wake_up_that_was_heard_is_not_counted_as_missed() {
    let recorded = recorded(async {
        let (plan, windlass) = planned();
        let client = windlass.client();
        plan.set(&["turn"], Fault::Late(ms(10)));
        // Two quick ones and two slow ones: with the last of them it knows that there is no more.
        for takes in [1, 5, 50_000, 50_000] {
            client.submit(&work("a", takes)).await.unwrap();
        }
        let worker = worker(&windlass).handle(handler).pool(2).poll(secs(30)).start().await.unwrap();
        pass(secs(40)).await;
        let next = client.submit(&work("b", 0)).await.unwrap().id;
        client.wait(next).await.unwrap();
        worker.stop().await.unwrap();
    });
    assert_is(&recorded, &[("windlass_missed_wakeups_total", 0)]);
}

#[test]
fn what_was_put_right_is_counted() {
    let recorded = recorded(async {
        let (spy, windlass) = spied();
        let worker = worker(&windlass).handle(handler).start().await.unwrap();
        spy.repair(3);
        pass(secs(130)).await;
        worker.stop().await.unwrap();
    });
    assert_is(&recorded, &[("windlass_reconciled_total", 3)]);
    check_labels(&recorded);
}

/// The rows of the tables in the page: each a name and what is in its other columns.
fn page() -> BTreeMap<String, Vec<String>> {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md")).unwrap();
    let row = |line: &str| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        let name = cells[0].strip_prefix('`')?.strip_suffix('`')?.to_owned();
        Some((name, cells[1..].to_vec()))
    };
    page.lines().filter(|line| line.starts_with('|')).filter_map(row).collect()
}

/// What is recorded has the labels that the page says.
#[track_caller]
fn check_labels(recorded: &Recorded) {
    let page = page();
    for key in recorded.0.keys() {
        let (name, labels) = key.split_once('{').unwrap_or((key, ""));
        let actual: BTreeSet<_> =
            labels.split(',').filter_map(|label| Some(label.split_once('=')?.0)).collect();
        let row = page.get(name).unwrap_or_else(|| panic!("{name} is not in docs/metrics.md"));
        let listed: BTreeSet<_> = row[1].split(", ").filter(|label| !label.is_empty()).collect();
        assert_eq!(actual, listed, "{name}");
    }
}

#[test]
fn the_page_lists_all_metrics_and_spans_and_no_others() {
    fn read(directory: &Path, text: &mut String) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(&path, text);
            } else {
                text.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }
    let mut sources = String::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut sources);
    let mut names = BTreeMap::new();
    for form in ["counter!", "gauge!", "histogram!", "debug_span!", "info_span!"] {
        for (at, _) in sources.match_indices(&format!("{form}(")) {
            let name = sources[at..].split('"').nth(1).unwrap();
            names.insert(name.to_owned(), form.trim_end_matches('!').trim_end_matches("_span").to_owned());
        }
    }
    let page: BTreeMap<_, _> = page().into_iter().map(|(name, row)| (name, row[0].clone())).collect();
    assert_eq!(page, names);
    assert_eq!(names.len(), 20, "{names:?}");
}
