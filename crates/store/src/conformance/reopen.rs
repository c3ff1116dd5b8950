//! After a crash, and beside another process.

use std::time::Duration;

use windlass_core::{By, Command, Name, State, WorkerId};

use super::{Case, STATES, claim_of, completed, details, entity, hourly, ids, scenarios, token};

scenarios![
    everything_is_there_after_a_crash,
    work_goes_on_after_a_crash,
    a_lease_outlives_a_crash_of_the_store,
    leadership_outlives_a_crash_of_the_store,
    deleted_tasks_stay_deleted,
    another_process_sees_the_same,
    two_processes_share_one_line,
];

/// I1, C60: tasks of every state with payloads, results, histories and notes; workers, leader, pauses,
/// entities, schedules.
async fn everything_is_there_after_a_crash(case: &Case) {
    for state in STATES {
        case.bring(case.task_with_key(state.word()), state).await;
        case.bring(case.task_for(&format!("planner:{state}")), state).await;
        case.submit(case.task_for(&format!("planner:{state}"))).await;
    }
    let worker = case.worker("w").await;
    case.store().campaign(worker.clone(), Duration::from_secs(30)).await.unwrap();
    case.store().pause(Name::default(), Name::queue("q2").unwrap(), true).await.unwrap();
    case.store().set_entity(Name::default(), entity("planner:1"), true).await.unwrap();
    let reporter = case.take(case.submit(case.task()).await, &worker).await;
    case.report(&reporter, details("[1]")).await.unwrap();
    case.schedule(hourly("s", case.now())).await;
    let before = case.snapshot().await;
    case.crash().await;
    assert_eq!(case.snapshot().await, before);
    assert!(case.store().has_entity(Name::default(), entity("planner:1")).await.unwrap());
}

/// I1, I8: keys, order, slots and due times still hold.
async fn work_goes_on_after_a_crash(case: &Case) {
    let first = case.submit(case.task_with_key("k")).await;
    let busy = case.submit(case.task_for("planner:1")).await;
    let parked = case.submit(case.task_for("planner:1")).await;
    let waiting = case.bring(case.task(), State::WaitingForRetry).await;
    case.crash().await;
    let again = case.store().submit(vec![case.task_with_key("k")]).await.unwrap()[0];
    assert_eq!((again.id, again.created), (first, false));
    let later = case.submit(case.task()).await;
    case.pass(1);
    assert_eq!(case.chores().await, 1);
    let claimed = case.claim(&case.worker("w").await, 9).await;
    assert_eq!(ids(&claimed), [first, busy, waiting, later]);
    case.complete(&claimed[1]).await;
    assert_eq!(ids(&case.claim(&case.worker("w").await, 9).await), [parked]);
}

/// I4, I5: the worker did not crash, so it finishes; the lease number goes on from where it was.
async fn a_lease_outlives_a_crash_of_the_store(case: &Case) {
    let worker = case.worker("w").await;
    case.submit_many(2).await;
    let claimed = case.claim(&worker, 2).await;
    case.crash().await;
    assert_eq!(case.claim(&worker, 2).await, []);
    case.finish(&claimed[0], completed("1")).await.unwrap();
    case.apply(Command::Release { token: token(&claimed[1]), note: None }).await.unwrap();
    case.crash().await;
    assert_eq!(case.claim_one(&worker).await.task.status.lease, 2);
    let again = case.finish(&claimed[0], completed("2")).await.unwrap();
    assert!(!again.changed, "an answer that the crash swallowed can be asked for again");
}

/// I15: a term is never used again.
async fn leadership_outlives_a_crash_of_the_store(case: &Case) {
    let (a, b) = (WorkerId::new("a").unwrap(), WorkerId::new("b").unwrap());
    let lease = Duration::from_secs(30);
    case.store().campaign(a.clone(), lease).await.unwrap();
    case.crash().await;
    assert_eq!(case.store().campaign(b.clone(), lease).await.unwrap(), None);
    case.pass(30);
    assert_eq!(case.store().campaign(b.clone(), lease).await.unwrap().unwrap().term, 2);
}

/// C76: nor does a cursor, or the order, turn back when the last task is deleted.
async fn deleted_tasks_stay_deleted(case: &Case) {
    let kept = case.submit(case.task()).await;
    let page = crate::Page { limit: 1, after: None, oldest_first: true };
    let gone = case.submit(case.task()).await;
    let cursor = case.store().tasks(crate::Filter::default(), page).await.unwrap().next.unwrap();
    case.apply(Command::Cancel { task: gone, by: By::default() }).await.unwrap();
    case.apply(Command::Delete { task: gone }).await.unwrap();
    case.crash().await;
    assert_eq!(case.store().task(gone).await.unwrap(), None);
    let new = case.submit(case.task()).await;
    let page = crate::Page { after: Some(cursor), ..page };
    let listed = case.store().tasks(crate::Filter::default(), page).await.unwrap().tasks;
    assert_eq!(listed.iter().map(|task| task.id).collect::<Vec<_>>(), [new]);
    assert_eq!(ids(&case.claim(&case.worker("w").await, 9).await), [kept, new]);
}

/// I1: an acknowledged write is seen by everyone.
async fn another_process_sees_the_same(case: &Case) {
    let other = case.second().await;
    let id = case.submit(case.task_with_key("k")).await;
    let record = other.task(id).await.unwrap().expect("it was acknowledged");
    assert_eq!(record, case.record(id).await);
    let duplicate = other.submit(vec![case.task_with_key("k")]).await.unwrap()[0];
    assert_eq!((duplicate.id, duplicate.created), (id, false));
    other.pause(Name::default(), Name::default(), true).await.unwrap();
    assert_eq!(case.claim(&case.worker("w").await, 9).await, []);
    assert_eq!(other.workers().await.unwrap().len(), 1);
    assert_eq!(other.counts().await.unwrap(), case.store().counts().await.unwrap());
}

/// I4, I7: what one has claimed the other does not get.
async fn two_processes_share_one_line(case: &Case) {
    let other = case.second().await;
    let (here, there) = (case.worker("here").await, case.worker("there").await);
    let submitted = case.submit_many(3).await;
    case.submit(case.task_for("planner:1")).await;
    case.submit(case.task_for("planner:1")).await;
    let first = case.claim(&here, 2).await;
    let rest = other.claim(claim_of(&there, 9)).await.unwrap();
    assert_eq!(ids(&first), submitted[..2]);
    assert_eq!(rest.len(), 2, "the third, and one of the entity");
    assert_eq!(case.claim(&here, 9).await, []);
    let end = super::finish(&rest[1], completed("1"));
    other.apply(vec![end]).await.unwrap().remove(0).unwrap();
    assert_eq!(case.claim(&here, 9).await.len(), 1, "and now the other of the entity");
}
