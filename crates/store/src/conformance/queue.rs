//! Pausing and resuming queues.

use std::time::Duration;

use windlass_core::{Command, Name, NewTask, Rejected, Start, State};

use super::{Case, claim_of, ids, scenarios};
use crate::Claim;

scenarios![
    nothing_of_a_paused_queue_is_claimed,
    not_even_by_name,
    what_is_running_goes_on,
    a_paused_queue_still_accepts_and_promotes,
    a_pause_concerns_one_queue_of_one_namespace,
    pausing_twice_is_fine,
];

async fn pause(case: &Case, paused: bool) {
    case.store().pause(Name::default(), Name::default(), paused).await.unwrap();
}

/// Resuming gives everything back, in its order.
async fn nothing_of_a_paused_queue_is_claimed(case: &Case) {
    let worker = case.worker("w").await;
    let submitted = case.submit_many(2).await;
    pause(case, true).await;
    assert_eq!(case.claim(&worker, 9).await, []);
    assert_eq!(case.state(submitted[0]).await, State::Pending, "paused is not a state");
    pause(case, false).await;
    assert_eq!(ids(&case.claim(&worker, 9).await), submitted);
}

/// 4.3: a claim by name is refused with the reason; asking about what it holds is not a claim.
async fn not_even_by_name(case: &Case) {
    let worker = case.worker("w").await;
    let [held, task] = [case.submit(case.task()).await, case.submit(case.task()).await];
    case.take(held, &worker).await;
    pause(case, true).await;
    let refused = case.refusal(Command::Claim { task, worker: worker.clone() }).await;
    assert_eq!(refused, Rejected::QueuePaused { queue: "default".into() });
    let again = case.apply(Command::Claim { task: held, worker: worker.clone() }).await.unwrap();
    assert!(!again.changed);
    pause(case, false).await;
    case.take(task, &worker).await;
}

/// A pause takes nothing away.
async fn what_is_running_goes_on(case: &Case) {
    let worker = case.worker("w").await;
    let id = case.submit(case.task()).await;
    let claimed = case.claim_one(&worker).await;
    pause(case, true).await;
    let pulse = case.store().heartbeat(worker.clone(), vec![(id, 1)]).await.unwrap();
    assert_eq!(pulse, crate::Pulse::default());
    assert_eq!(case.complete(&claimed).await.state, State::Completed);
}

/// Only claiming stops.
async fn a_paused_queue_still_accepts_and_promotes(case: &Case) {
    pause(case, true).await;
    let id = case.submit(NewTask { start: Start::After(Duration::from_secs(1)), ..case.task() }).await;
    case.pass(1);
    assert_eq!(case.chores().await, 1);
    assert_eq!(case.state(id).await, State::Pending);
    assert_eq!(case.claim(&case.worker("w").await, 9).await, []);
}

/// Other queues, and the queue of the same name of another tenant, go on.
async fn a_pause_concerns_one_queue_of_one_namespace(case: &Case) {
    let worker = case.worker("w").await;
    let (queue, namespace) = (Name::queue("q2").unwrap(), Name::namespace("tenant").unwrap());
    case.submit(case.task()).await;
    let other = case.submit(NewTask { queue: queue.clone(), ..case.task() }).await;
    let theirs = case.submit(NewTask { namespace: namespace.clone(), ..case.task() }).await;
    pause(case, true).await;
    let ask = Claim { queues: vec![Name::default(), queue], ..claim_of(&worker, 9) };
    assert_eq!(ids(&case.store().claim(ask).await.unwrap()), [other]);
    let ask = Claim { namespace, ..claim_of(&worker, 9) };
    assert_eq!(ids(&case.store().claim(ask).await.unwrap()), [theirs]);
}

/// And resuming what was never paused; the list says what is.
async fn pausing_twice_is_fine(case: &Case) {
    let (namespace, queue) = (Name::namespace("tenant").unwrap(), Name::queue("q2").unwrap());
    case.store().pause(namespace.clone(), queue.clone(), false).await.unwrap();
    assert_eq!(case.store().paused().await.unwrap(), []);
    for _ in 0..2 {
        case.store().pause(namespace.clone(), queue.clone(), true).await.unwrap();
    }
    assert_eq!(case.store().paused().await.unwrap(), [(namespace.clone(), queue.clone())]);
    case.store().pause(namespace.clone(), queue.clone(), false).await.unwrap();
    assert_eq!(case.store().paused().await.unwrap(), []);
}
