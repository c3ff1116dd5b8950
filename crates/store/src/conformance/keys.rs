//! Idempotency keys.

use windlass_core::{Command, Json, Name, NewTask, OnConflict, Rejected, State};

use super::{Case, KIND, STATES, scenarios};

scenarios![
    a_second_submit_is_answered_with_the_first,
    a_second_submit_changes_nothing,
    the_answer_says_where_the_first_one_is,
    a_key_belongs_to_its_kind_and_namespace,
    a_key_does_not_belong_to_its_queue,
    tasks_without_a_key_never_meet,
    reject_mode_names_the_task_that_has_the_key,
    reject_mode_accepts_a_new_key,
    a_key_outlives_the_end_of_its_task,
    deleting_frees_the_key,
    a_key_finds_its_task,
    keys_are_compared_byte_by_byte,
    the_same_submit_may_be_repeated,
];

/// 1.3, 4.2: one task, one id, even if the payload differs.
async fn a_second_submit_is_answered_with_the_first(case: &Case) {
    let first = case.submit(case.task_with_key("k")).await;
    let payload = Json::payload(r#"{"other":true}"#).unwrap();
    let again = NewTask { payload, priority: 5, ..case.task_with_key("k") };
    let unused = again.id;
    let second = case.store().submit(vec![again]).await.unwrap()[0];
    assert_eq!((second.id, second.created), (first, false));
    assert_eq!(case.store().task(unused).await.unwrap(), None, "nothing was created");
    assert_eq!(case.record(first).await.payload.as_str(), "null", "the first payload stays");
}

/// C26: a duplicate does not touch the row.
async fn a_second_submit_changes_nothing(case: &Case) {
    case.submit(case.task_with_key("k")).await;
    let before = case.snapshot().await;
    case.pass(60);
    case.submit(case.task_with_key("k")).await;
    assert_eq!(case.snapshot().await, before);
}

/// 4.2: the answer carries the state of the task that exists.
async fn the_answer_says_where_the_first_one_is(case: &Case) {
    for state in STATES {
        let key = state.word();
        let first = case.bring(case.task_with_key(key), state).await;
        let second = case.store().submit(vec![case.task_with_key(key)]).await.unwrap()[0];
        assert_eq!((second.id, second.state, second.created), (first, state, false));
    }
}

/// 1.3: the same key under another kind, or for another tenant, is another task.
async fn a_key_belongs_to_its_kind_and_namespace(case: &Case) {
    let first = case.submit(case.task_with_key("k")).await;
    let kind = Name::kind("test:other").unwrap();
    let namespace = Name::namespace("other").unwrap();
    let other_kind = case.submit(NewTask { kind: kind.clone(), ..case.task_with_key("k") }).await;
    let tenant = NewTask { namespace: namespace.clone(), ..case.task_with_key("k") };
    let other_tenant = case.submit(tenant).await;
    let found = [
        case.store().find(Name::default(), Name::kind(KIND).unwrap(), "k".into()).await.unwrap(),
        case.store().find(Name::default(), kind.clone(), "k".into()).await.unwrap(),
        case.store().find(namespace.clone(), Name::kind(KIND).unwrap(), "k".into()).await.unwrap(),
        case.store().find(namespace.clone(), kind.clone(), "k".into()).await.unwrap(),
    ];
    assert_eq!(found, [Some(first), Some(other_kind), Some(other_tenant), None]);
}

/// 1.3: the scope is namespace and kind; another queue is no way around it.
async fn a_key_does_not_belong_to_its_queue(case: &Case) {
    let first = case.submit(case.task_with_key("k")).await;
    let queue = Name::queue("other").unwrap();
    let second = case.submit(NewTask { queue, ..case.task_with_key("k") }).await;
    assert_eq!(second, first);
}

/// 1.3: absent keys never collide.
async fn tasks_without_a_key_never_meet(case: &Case) {
    let ids = [case.submit(case.task()).await, case.submit(case.task()).await];
    assert_ne!(ids[0], ids[1]);
    assert_eq!(case.claim(&case.worker("w").await, 9).await.len(), 2);
}

/// Mode `reject` refuses with the existing id, and changes nothing.
async fn reject_mode_names_the_task_that_has_the_key(case: &Case) {
    let existing = case.submit(case.task_with_key("k")).await;
    let before = case.snapshot().await;
    let again = NewTask { on_conflict: OnConflict::Reject, ..case.task_with_key("k") };
    assert_eq!(case.refused(again).await, Rejected::KeyConflict { key: "k".into(), existing });
    assert_eq!(case.snapshot().await, before);
}

/// Mode `reject` refuses conflicts only.
async fn reject_mode_accepts_a_new_key(case: &Case) {
    let new = NewTask { on_conflict: OnConflict::Reject, ..case.task_with_key("k") };
    assert!(case.store().submit(vec![new]).await.unwrap()[0].created);
}

/// 4.7, C26: a key is taken while its task exists, finished or not.
async fn a_key_outlives_the_end_of_its_task(case: &Case) {
    let kind = Name::kind(KIND).unwrap();
    for state in STATES {
        let id = case.bring(case.task_with_key(state.word()), state).await;
        case.pass(1_000_000);
        let found = case.store().find(Name::default(), kind.clone(), state.word().into()).await.unwrap();
        assert_eq!(found, Some(id), "{state}");
    }
}

/// 4.7, C79: deleting a task frees its key for a new one.
async fn deleting_frees_the_key(case: &Case) {
    let first = case.bring(case.task_with_key("k"), State::Completed).await;
    case.apply(Command::Delete { task: first }).await.unwrap();
    assert_eq!(
        case.store().find(Name::default(), Name::kind(KIND).unwrap(), "k".into()).await.unwrap(),
        None
    );
    let next = case.store().submit(vec![case.task_with_key("k")]).await.unwrap()[0];
    assert!(next.created);
    assert_ne!(next.id, first);
}

/// 4.7: by its key a task is found; by an empty or unknown one, nothing.
async fn a_key_finds_its_task(case: &Case) {
    let (namespace, kind) = (Name::default(), Name::kind(KIND).unwrap());
    let id = case.submit(case.task_with_key("k")).await;
    case.submit(case.task()).await;
    for (key, found) in [("k", Some(id)), ("", None), ("K", None), ("kk", None), ("k\0", None), ("%", None)] {
        assert_eq!(
            case.store().find(namespace.clone(), kind.clone(), key.into()).await.unwrap(),
            found,
            "{key:?}"
        );
    }
}

/// 1.3: keys that a person might take for one are different keys.
async fn keys_are_compared_byte_by_byte(case: &Case) {
    let keys = ["a", "A", "a ", " a", "1", "01", "1.0", "é", "e\u{301}", "ß", "ss", "\u{200b}a", "null"];
    for key in keys {
        let new = case.task_with_key(key);
        assert!(case.store().submit(vec![new]).await.unwrap()[0].created, "{key:?} is a key of its own");
    }
    assert_eq!(case.claim(&case.worker("w").await, 99).await.len(), keys.len());
}

/// C72: a submit whose answer was lost is sent again, with the same id and key, and finds itself.
async fn the_same_submit_may_be_repeated(case: &Case) {
    let new = NewTask { on_conflict: OnConflict::Return, ..case.task_with_key("k") };
    let first = case.store().submit(vec![new.clone()]).await.unwrap()[0];
    let second = case.store().submit(vec![new]).await.unwrap()[0];
    assert_eq!((second.id, first.created, second.created), (first.id, true, false));
}
