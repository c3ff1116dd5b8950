//! Many tasks in one submit: all or nothing.

use windlass_core::{NewTask, OnConflict, Rejected, limits};

use super::{Case, id, scenarios};
use crate::{Error, Filter, Page};

scenarios![
    answers_come_in_the_order_of_the_tasks,
    one_bad_task_refuses_the_batch,
    a_conflict_in_the_middle_undoes_what_came_before,
    a_key_twice_in_a_batch_is_one_task,
    an_id_twice_in_a_batch_is_refused,
    a_refused_batch_frees_what_it_took,
    a_thousand_are_accepted_and_one_more_is_not,
    a_batch_of_one_is_refused_without_a_place,
];

/// 0.14: ids in order, which is also the order of claiming.
async fn answers_come_in_the_order_of_the_tasks(case: &Case) {
    let tasks: Vec<_> = [5, 3, 9, 1].map(|n| NewTask { id: id(1000 + n), ..case.task() }).into();
    let wanted: Vec<_> = tasks.iter().map(|task| task.id).collect();
    let submitted = case.store().submit(tasks).await.unwrap();
    assert_eq!(submitted.iter().map(|one| one.id).collect::<Vec<_>>(), wanted);
    assert!(submitted.iter().all(|one| one.created));
    assert_eq!(super::ids(&case.claim(&case.worker("w").await, 9).await), wanted);
}

/// 0.14: the error names the place, counted from 0, and nothing is written.
async fn one_bad_task_refuses_the_batch(case: &Case) {
    let bad = NewTask { key: Some(String::new()), ..case.task() };
    let before = case.snapshot().await;
    let error = case.store().submit(vec![case.task(), case.task(), bad]).await.unwrap_err();
    assert!(matches!(error, Error::InBatch { index: 2, rejected: Rejected::Invalid(_) }), "{error:?}");
    assert_eq!(error.code(), "invalid_task");
    assert_eq!(case.snapshot().await, before);
}

/// 0.14: also when the fault is found only beside the rows that exist.
async fn a_conflict_in_the_middle_undoes_what_came_before(case: &Case) {
    let existing = case.submit(case.task_with_key("k")).await;
    let before = case.snapshot().await;
    let conflict = NewTask { on_conflict: OnConflict::Reject, ..case.task_with_key("k") };
    let tasks = vec![case.task_with_key("a"), conflict, case.task_with_key("b")];
    let error = case.store().submit(tasks).await.unwrap_err();
    let rejected = Rejected::KeyConflict { key: "k".into(), existing };
    assert_eq!(error, Error::InBatch { index: 1, rejected });
    assert_eq!(case.snapshot().await, before);
    assert!(case.store().submit(vec![case.task_with_key("a")]).await.unwrap()[0].created, "key a is free");
}

/// 1.3, 0.14: the second of two equal keys is answered with the first.
async fn a_key_twice_in_a_batch_is_one_task(case: &Case) {
    let tasks = vec![case.task_with_key("k"), case.task(), case.task_with_key("k")];
    let submitted = case.store().submit(tasks).await.unwrap();
    assert_eq!(submitted[0].id, submitted[2].id);
    assert_eq!(submitted.iter().map(|one| one.created).collect::<Vec<_>>(), [true, true, false]);
    let strict = NewTask { on_conflict: OnConflict::Reject, ..case.task_with_key("l") };
    let error = case.store().submit(vec![case.task_with_key("l"), strict]).await.unwrap_err();
    assert_eq!((error.code(), matches!(error, Error::InBatch { index: 1, .. })), ("key_conflict", true));
}

/// C74: not even within one batch is an id used twice.
async fn an_id_twice_in_a_batch_is_refused(case: &Case) {
    let first = case.task();
    let second = NewTask { id: first.id, ..case.task() };
    let rejected = Rejected::IdConflict { task: first.id };
    let error = case.store().submit(vec![first, second]).await.unwrap_err();
    assert_eq!(error, Error::InBatch { index: 1, rejected });
    assert_eq!(case.store().counts().await.unwrap(), []);
}

/// I7, 0.14: slots, keys and ids of a refused batch are free again.
async fn a_refused_batch_frees_what_it_took(case: &Case) {
    let existing = case.submit(case.task()).await;
    let good = NewTask { key: Some("k".into()), ..case.task_for("planner:1") };
    let bad = NewTask { id: existing, ..case.task() };
    case.store().submit(vec![good.clone(), case.task_for("planner:1"), bad]).await.unwrap_err();
    let submitted = case.store().submit(vec![good]).await.unwrap()[0];
    assert!(submitted.created, "id and key are free");
    assert!(case.record(submitted.id).await.task.status.slot, "and so is the entity");
}

/// Limits: 1,000 tasks in one submit.
async fn a_thousand_are_accepted_and_one_more_is_not(case: &Case) {
    let tasks = |n: usize| (0..n).map(|_| case.task()).collect::<Vec<_>>();
    let error = case.store().submit(tasks(limits::BATCH + 1)).await.unwrap_err();
    assert_eq!(error.code(), "invalid_task", "{error}");
    assert_eq!(case.store().counts().await.unwrap(), []);
    let submitted = case.store().submit(tasks(limits::BATCH)).await.unwrap();
    let page = Page { limit: limits::PAGE, after: None, oldest_first: true };
    let listed = case.store().tasks(Filter::default(), page).await.unwrap().tasks;
    assert!(submitted.iter().map(|one| one.id).eq(listed.iter().map(|task| task.id)), "all, in order");
}

/// A lone task has no place in a batch to tell.
async fn a_batch_of_one_is_refused_without_a_place(case: &Case) {
    let bad = NewTask { key: Some(String::new()), ..case.task() };
    let error = case.store().submit(vec![bad]).await.unwrap_err();
    assert!(matches!(error, Error::Rejected(Rejected::Invalid(_))), "{error:?}");
}
