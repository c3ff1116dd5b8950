//! Lanes and entities: how many may be in progress, and in which order they start.

use windlass_core::{Command, Lane, Name, NewTask, Rejected, State, TaskId};

use super::{Case, claim_of, ids, scenarios};
use crate::Claim;

scenarios![
    one_task_of_an_entity_at_a_time,
    different_entities_run_together,
    a_planner_is_not_a_worker,
    an_entity_is_not_a_lane_of_the_same_name,
    namespaces_have_their_own_lanes,
    queues_and_kinds_share_a_lane,
    a_lane_starts_in_submit_order,
    a_lane_admits_as_many_as_its_limit,
    the_head_of_the_line_decides_by_its_own_limit,
    a_head_that_leaves_lets_the_next_one_in,
    a_parked_task_cannot_be_claimed_by_name,
    tasks_without_a_lane_pass_by,
    a_look_at_the_lanes_finds_nothing_to_do,
];

/// Submits one task for each of the entities.
async fn submit_for(case: &Case, entities: &[&str]) -> Vec<TaskId> {
    let tasks = entities.iter().map(|entity| case.task_for(entity)).collect();
    case.store().submit(tasks).await.unwrap().iter().map(|one| one.id).collect()
}

fn in_lane(case: &Case, key: &str, limit: u32) -> NewTask {
    NewTask { lane: Some(Lane::new(key, limit).unwrap()), ..case.task() }
}

/// 0.8, C8, I7: also within one scan, and until the first has ended.
async fn one_task_of_an_entity_at_a_time(case: &Case) {
    let worker = case.worker("w").await;
    let submitted = submit_for(case, &["planner:1", "planner:1", "planner:1"]).await;
    for id in submitted {
        let claimed = case.claim(&worker, 9).await;
        assert_eq!(ids(&claimed), [id]);
        assert_eq!(case.claim(&worker, 9).await, [], "its entity is locked");
        case.complete(&claimed[0]).await;
    }
}

/// 0.8: FIFO, at most one per entity per scan.
async fn different_entities_run_together(case: &Case) {
    let worker = case.worker("w").await;
    let submitted = submit_for(case, &["planner:1", "planner:2", "planner:1", "planner:3"]).await;
    let claimed = case.claim(&worker, 9).await;
    assert_eq!(ids(&claimed), [submitted[0], submitted[1], submitted[3]]);
    case.complete(&claimed[0]).await;
    assert_eq!(ids(&case.claim(&worker, 9).await), [submitted[2]]);
}

/// 0.8: planner:X and worker:X are different entities, and so is planner:x.
async fn a_planner_is_not_a_worker(case: &Case) {
    let worker = case.worker("w").await;
    let submitted = submit_for(case, &["planner:X", "worker:X", "planner:x", "planner:X:1"]).await;
    assert_eq!(ids(&case.claim(&worker, 9).await), submitted);
}

/// A lane key that reads like an entity is another lane.
async fn an_entity_is_not_a_lane_of_the_same_name(case: &Case) {
    let entity = case.submit(case.task_for("planner:1")).await;
    let lane = case.submit(in_lane(case, "planner:1", 1)).await;
    assert_eq!(ids(&case.claim(&case.worker("w").await, 9).await), [entity, lane]);
    assert!(Lane::new("@planner:1", 1).is_err(), "the stored form of an entity is no lane key");
}

/// Tenants do not wait for each other.
async fn namespaces_have_their_own_lanes(case: &Case) {
    let namespace = Name::namespace("tenant").unwrap();
    case.submit(case.task_for("planner:1")).await;
    let theirs = NewTask { namespace: namespace.clone(), ..case.task_for("planner:1") };
    let theirs = case.submit(theirs).await;
    let worker = case.worker("w").await;
    case.claim_one(&worker).await;
    let ask = Claim { namespace, ..claim_of(&worker, 9) };
    assert_eq!(ids(&case.store().claim(ask).await.unwrap()), [theirs]);
}

/// 0.8: the lock is on the entity, whatever is done to it and from which line.
async fn queues_and_kinds_share_a_lane(case: &Case) {
    let (queue, kind) = (Name::queue("q2").unwrap(), Name::kind("k2").unwrap());
    case.submit(case.task_for("planner:1")).await;
    let task = NewTask { queue: queue.clone(), kind: kind.clone(), ..case.task_for("planner:1") };
    let second = case.submit(task).await;
    let worker = case.worker("w").await;
    let claimed = case.claim_one(&worker).await;
    let ask = Claim { queues: vec![queue], kinds: vec![kind], ..claim_of(&worker, 9) };
    assert_eq!(case.store().claim(ask.clone()).await.unwrap(), []);
    case.complete(&claimed).await;
    assert_eq!(ids(&case.store().claim(ask).await.unwrap()), [second]);
}

/// I7: priority orders what can be claimed, and a lane lets one in at a time, as they came.
async fn a_lane_starts_in_submit_order(case: &Case) {
    let worker = case.worker("w").await;
    let mut submitted = Vec::new();
    for priority in [0, 9, 5] {
        submitted.push(case.submit(NewTask { priority, ..case.task_for("planner:1") }).await);
    }
    let mut started = Vec::new();
    while let [claimed] = &case.claim(&worker, 9).await[..] {
        started.push(claimed.task.id);
        case.complete(claimed).await;
    }
    assert_eq!(started, submitted);
}

/// I7: never more than the limit; each end lets the next one in.
async fn a_lane_admits_as_many_as_its_limit(case: &Case) {
    let worker = case.worker("w").await;
    let mut submitted = Vec::new();
    for _ in 0..6 {
        submitted.push(case.submit(in_lane(case, "api", 3)).await);
    }
    let claimed = case.claim(&worker, 9).await;
    assert_eq!(ids(&claimed), submitted[..3]);
    case.complete(&claimed[1]).await;
    let next = case.claim(&worker, 9).await;
    assert_eq!(ids(&next), submitted[3..4]);
    case.complete(&claimed[0]).await;
    case.complete(&next[0]).await;
    assert_eq!(ids(&case.claim(&worker, 9).await), submitted[4..]);
}

/// I7: who stands first and cannot start yet is not overtaken, even by one that could.
async fn the_head_of_the_line_decides_by_its_own_limit(case: &Case) {
    let worker = case.worker("w").await;
    let wide = case.submit(in_lane(case, "api", 2)).await;
    let narrow = case.submit(in_lane(case, "api", 1)).await;
    let behind = case.submit(in_lane(case, "api", 2)).await;
    let first = case.claim(&worker, 9).await;
    assert_eq!(ids(&first), [wide], "one is in progress, so the one with limit 1 waits");
    case.complete(&first[0]).await;
    let both = case.claim(&worker, 9).await;
    assert_eq!(ids(&both), [narrow, behind], "limit 1 looks at those before it only");
}

/// I7: a parked head that is cancelled or resolved, having blocked others by its small limit, blocks them no
/// more.
async fn a_head_that_leaves_lets_the_next_one_in(case: &Case) {
    let worker = case.worker("w").await;
    for (lane, resolve) in [("one", false), ("two", true)] {
        case.submit(in_lane(case, lane, 2)).await;
        let head = case.submit(in_lane(case, lane, 1)).await;
        let next = case.submit(in_lane(case, lane, 2)).await;
        assert_eq!(case.claim(&worker, 9).await.len(), 1);
        if resolve {
            let by = windlass_core::By::default();
            case.apply(Command::Resolve { task: head, result: None, by }).await.unwrap();
        } else {
            case.cancel(head).await.unwrap();
        }
        assert_eq!(ids(&case.claim(&worker, 9).await), [next], "resolved: {resolve}");
    }
}

/// 4.3, C8: not even by name.
async fn a_parked_task_cannot_be_claimed_by_name(case: &Case) {
    let worker = case.worker("w").await;
    let submitted = submit_for(case, &["planner:1", "planner:1"]).await;
    let task = submitted[1];
    assert_eq!(case.state(task).await, State::Pending, "parked is not a state");
    let refused = case.refusal(Command::Claim { task, worker: worker.clone() }).await;
    assert_eq!(refused, Rejected::LaneFull { task, lane: "@planner:1".into() });
    let first = case.take(submitted[0], &worker).await;
    case.complete(&first).await;
    case.take(task, &worker).await;
}

/// Tasks without a lane pay nothing.
async fn tasks_without_a_lane_pass_by(case: &Case) {
    let first = case.submit(case.task_for("planner:1")).await;
    case.submit(case.task_for("planner:1")).await;
    let free = case.submit(case.task()).await;
    assert_eq!(ids(&case.claim(&case.worker("w").await, 9).await), [first, free]);
    assert!(!case.record(free).await.task.status.slot);
}

/// 0.8, I7: a slot cannot leak, so there is nothing to put right; and a look is as long as it is told to be.
async fn a_look_at_the_lanes_finds_nothing_to_do(case: &Case) {
    let worker = case.worker("w").await;
    let store = case.store();
    // The workflows come after the lanes; there are none.
    let look = store.reconcile(None, 9).await.unwrap();
    assert_eq!((look.repaired, look.next.is_some()), (0, true));
    assert_eq!(store.reconcile(look.next, 9).await.unwrap(), crate::Reconciled::default());
    let tenant = Name::namespace("tenant").unwrap();
    let keys = ["b", "a", "a b", "A", "é", "\n", "it's"];
    for key in keys {
        for _ in 0..3 {
            case.submit(in_lane(case, key, 1)).await;
            case.submit(NewTask { namespace: tenant.clone(), ..in_lane(case, key, 2) }).await;
        }
        case.submit(in_lane(case, &format!("alone in {key}"), 1)).await;
    }
    case.claim(&worker, 3).await;
    let before = case.snapshot().await;
    for limit in [1, 2, 5, 13, 14, 15] {
        let (mut looks, mut after) = (0, None);
        loop {
            let look = store.reconcile(after.clone(), limit).await.unwrap();
            assert_eq!(look.repaired, 0, "after {after:?}");
            assert!(look.next.is_none() || look.next != after, "a look moves on");
            looks += 1;
            after = look.next;
            if after.is_none() {
                break;
            }
        }
        // Two namespaces with tasks that wait in each of these lanes, then one look for a workflow; whoever
        // sees the end of the lanes only behind it looks once more.
        let full = 2 * keys.len() / limit + 1;
        assert!((full..=full + 1).contains(&looks), "{looks} looks by {limit}");
    }
    assert_eq!(case.snapshot().await, before);
}
