//! Accepting one task.

use std::num::NonZeroU32;
use std::time::Duration;

use windlass_core::{
    Ageing, Backoff, Jitter, Json, Lane, Name, NewTask, Reason, Rejected, RetryPolicy, Start, State, TaskId,
};

use super::{Case, KIND, scenarios};

scenarios![
    a_new_task_starts_clean,
    everything_that_was_asked_for_comes_back,
    a_payload_of_any_shape_is_kept,
    an_existing_id_is_refused,
    an_id_may_be_any_uuid,
    what_was_never_submitted_is_nowhere,
    an_empty_batch_is_nothing,
];

/// 1.1, 3.1, 4.1, 4.2: the defaults, and all state reset by the store.
async fn a_new_task_starts_clean(case: &Case) {
    let submitted = case.store().submit(vec![case.task()]).await.unwrap()[0];
    assert!(submitted.created);
    assert_eq!(submitted.state, State::Pending);
    let record = case.record(submitted.id).await;
    let (spec, status) = (&record.task.spec, &record.task.status);
    assert_eq!((&*spec.namespace, &*spec.queue, &*spec.kind), ("default", "default", KIND));
    assert_eq!((spec.priority, spec.max_attempts.map(NonZeroU32::get)), (0, Some(3)));
    assert_eq!(spec.retry, RetryPolicy::default());
    assert_eq!((&spec.key, &spec.lane, spec.timeout, spec.tags.len()), (&None, &None, None, 0));
    assert_eq!(spec.traceparent, None);
    assert_eq!(spec.created_at, case.now());
    assert_eq!((status.state, status.attempt, status.lease), (State::Pending, 0, 0));
    assert_eq!((&status.worker, &status.error, status.slot), (&None, &None, false));
    let times = [status.due_at, status.claimed_at, status.started_at, status.finished_at];
    assert_eq!(times, [None; 4], "nothing has happened yet");
    assert_eq!(status.updated_at, case.now());
    assert_eq!((record.payload.as_str(), record.result), ("null", None));
    assert_eq!(record.history.len(), 1);
    assert_eq!(record.history[0].reason, Reason::Submitted);
}

/// 1.1, 4.1: every part of the request is stored, down to the nanosecond and the last bit of a factor.
async fn everything_that_was_asked_for_comes_back(case: &Case) {
    let new = NewTask {
        namespace: Name::namespace("tenant-7").unwrap(),
        queue: Name::queue("mail.out").unwrap(),
        kind: Name::kind("email:send").unwrap(),
        payload: Json::payload(r#"{"to": "ada"}"#).unwrap(),
        priority: -42,
        ageing: Ageing { per_hour: 1500, per_retry: 250 },
        key: Some("order 17".into()),
        lane: Some(Lane::new("smtp", 7).unwrap().strict()),
        start: Start::After(Duration::from_micros(1_000_001)),
        timeout: Some(Duration::from_nanos(1_500_000_001)),
        tags: vec!["red".into(), "blue".into(), "red".into()],
        max_attempts: NonZeroU32::new(17),
        retry: RetryPolicy {
            backoff: Backoff::Exponential { factor: 1.1 },
            base: Duration::from_nanos(1),
            cap: Duration::from_nanos(86_400_000_000_007),
            jitter: Jitter::Percent(13),
        },
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().ok(),
        actor: Some("ada".into()),
        ..case.task()
    };
    let id = case.submit(new.clone()).await;
    let record = case.record(id).await;
    let (task, payload, first) = new.admit(case.now());
    assert_eq!(record.task, task);
    assert_eq!(record.payload, payload);
    assert_eq!(record.history, [first]);
    assert_eq!(record.task.status.due_at, Some(case.now().plus(Duration::from_micros(1_000_001))));
}

/// 4.2: null and empty ones are payloads too, and the text is kept.
async fn a_payload_of_any_shape_is_kept(case: &Case) {
    let worker = case.worker("w").await;
    for text in ["null", "{}", "[]", "\"\"", "0", "false", " { \"a\" : [ 1 , 2 ] } ", "\"é ü 😀\""] {
        let payload = Json::payload(text).unwrap();
        let id = case.submit(NewTask { payload, ..case.task() }).await;
        assert_eq!(case.record(id).await.payload.as_str(), text, "as read");
        let claimed = case.claim_one(&worker).await;
        assert_eq!((claimed.task.id, claimed.payload.as_str()), (id, text), "as claimed");
        case.complete(&claimed).await;
        assert_eq!(case.record(id).await.payload.as_str(), text, "as read when all is done");
    }
}

/// C74: an id that exists is a conflict, and the task that has it stays as it is.
async fn an_existing_id_is_refused(case: &Case) {
    let id = case.submit(case.task()).await;
    let before = case.snapshot().await;
    let again = NewTask { id, payload: Json::payload("2").unwrap(), priority: 9, ..case.task() };
    assert_eq!(case.refused(again).await, Rejected::IdConflict { task: id });
    assert_eq!(case.snapshot().await, before);
}

/// By convention version 7, but any UUID is accepted, and one is not mistaken for another.
async fn an_id_may_be_any_uuid(case: &Case) {
    let nil = TaskId::from_bytes([0; 16]);
    let full = TaskId::from_bytes([0xff; 16]);
    let hex: TaskId = "f81d4fae7dec41d0a76500a0c91e6bf6".parse().unwrap();
    for id in [nil, full, hex] {
        assert_eq!(case.submit(NewTask { id, ..case.task() }).await, id);
    }
    for id in [nil, full, hex] {
        assert_eq!(case.record(id).await.task.id, id);
    }
}

/// I2, 2.5, 4.7: an id that was never submitted is found by no reading.
async fn what_was_never_submitted_is_nowhere(case: &Case) {
    case.submit(case.task()).await;
    let unknown = case.task().id;
    assert_eq!(case.store().task(unknown).await.unwrap(), None);
    assert_eq!(case.store().facts(unknown).await.unwrap(), None);
    assert_eq!(case.store().explain(unknown).await.unwrap(), None);
}

/// 0.14: none of nothing is refused.
async fn an_empty_batch_is_nothing(case: &Case) {
    assert_eq!(case.store().submit(Vec::new()).await.unwrap(), []);
    assert_eq!(case.store().apply(Vec::new()).await.unwrap(), []);
    assert_eq!(case.store().counts().await.unwrap(), []);
}
