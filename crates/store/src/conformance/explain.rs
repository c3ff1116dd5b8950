//! Why a task is not running.

use std::time::Duration;

use windlass_core::{
    Blocker, Explanation, LaneHolder, Name, NewTask, NewWorker, State, TaskId, Why, WorkerId,
};

use super::{Case, STATES, scenarios};

scenarios![
    nobody_takes_its_kind,
    it_stands_in_line,
    its_queue_is_paused,
    its_lane_is_full,
    it_is_not_due,
    its_backoff_runs,
    its_worker_has_it,
    its_worker_fell_silent,
    it_is_over,
];

async fn explain(case: &Case, id: TaskId) -> Explanation {
    let explanation = case.store().explain(id).await.unwrap().expect("the task is there");
    assert!(!explanation.detail.is_empty());
    explanation
}

async fn why(case: &Case, id: TaskId) -> Why {
    explain(case, id).await.why
}

/// No live worker of its namespace, queue and kind.
async fn nobody_takes_its_kind(case: &Case) {
    let id = case.submit(case.task()).await;
    let explanation = explain(case, id).await;
    assert_eq!(explanation.why, Why::NoWorker);
    assert_eq!(explanation.blockers, [Blocker::Kind(super::KIND.into())]);
    let kinds = vec![Name::kind(super::KIND).unwrap()];
    let new = |id: &str| NewWorker { kinds: kinds.clone(), ..NewWorker::new(WorkerId::new(id).unwrap()) };
    for wrong in [
        NewWorker { kinds: vec![Name::kind("k2").unwrap()], ..new("other kind") },
        NewWorker { queues: vec![Name::queue("q2").unwrap()], ..new("other queue") },
        NewWorker { namespace: Name::namespace("tenant").unwrap(), ..new("other tenant") },
    ] {
        case.store().register(wrong).await.unwrap();
        assert_eq!(why(case, id).await, Why::NoWorker);
    }
    case.worker("w").await;
    assert_eq!(why(case, id).await, Why::InQueue);
    case.pass(30);
    assert_eq!(why(case, id).await, Why::NoWorker, "it fell silent");
}

/// Nothing but the tasks before it.
async fn it_stands_in_line(case: &Case) {
    case.worker("w").await;
    let id = case.submit(case.task()).await;
    let explanation = explain(case, id).await;
    assert_eq!((explanation.why, explanation.next_change_at), (Why::InQueue, None));
    assert_eq!(explanation.blockers, []);
}

/// Paused comes before anything else that a pending task waits for.
async fn its_queue_is_paused(case: &Case) {
    let id = case.submit(case.task()).await;
    case.store().pause(Name::default(), Name::default(), true).await.unwrap();
    let explanation = explain(case, id).await;
    assert_eq!(explanation.why, Why::QueuePaused);
    assert_eq!(explanation.blockers, [Blocker::Queue("default".into())]);
    case.store().pause(Name::default(), Name::default(), false).await.unwrap();
    assert_eq!(why(case, id).await, Why::NoWorker);
}

/// 0.8: the holders are named, in submit order, each with its state and worker.
async fn its_lane_is_full(case: &Case) {
    let worker = case.worker("w").await;
    let lane = Some(windlass_core::Lane::new("api", 2).unwrap());
    let task = || NewTask { lane: lane.clone(), ..case.task() };
    let first = case.submit(task()).await;
    let second = case.submit(task()).await;
    let parked = case.submit(task()).await;
    let other = NewTask { namespace: Name::namespace("tenant").unwrap(), ..task() };
    case.submit(other).await;
    case.take(second, &worker).await;
    let explanation = explain(case, parked).await;
    assert_eq!((explanation.why, explanation.next_change_at), (Why::LaneFull, None));
    let holders = [
        LaneHolder { task: first, state: State::Pending, worker: None },
        LaneHolder { task: second, state: State::Claimed, worker: Some(worker) },
    ];
    assert_eq!(explanation.blockers, holders.clone().map(Blocker::Task));
    let facts = case.store().facts(first).await.unwrap().unwrap();
    assert_eq!(facts.lane_holders, holders[1..], "it does not stand in its own way");
    assert_eq!(why(case, first).await, Why::InQueue, "who has a slot does not wait for one");
}

/// Scheduled, and then about to be due until a leader acts.
async fn it_is_not_due(case: &Case) {
    let id = case.bring(case.task(), State::Scheduled).await;
    let due = case.record(id).await.task.status.due_at;
    let explanation = explain(case, id).await;
    assert_eq!((explanation.why, explanation.next_change_at), (Why::NotDue, due));
    case.clock.set(due.unwrap());
    assert_eq!(why(case, id).await, Why::AboutToBeDue);
}

/// 2.24, C42: the backoff and until when.
async fn its_backoff_runs(case: &Case) {
    let id = case.bring(case.task(), State::WaitingForRetry).await;
    let due = Some(case.now().plus(Duration::from_secs(1)));
    let explanation = explain(case, id).await;
    assert_eq!((explanation.why, explanation.next_change_at), (Why::Backoff, due));
    case.pass(2);
    let explanation = explain(case, id).await;
    assert_eq!((explanation.why, explanation.next_change_at), (Why::AboutToBeDue, due));
}

/// C42: claimed or running, by whom; the next thing is its deadline or the end of its lease.
async fn its_worker_has_it(case: &Case) {
    let holder = [Blocker::Worker(WorkerId::new("bringer").unwrap())];
    let until = |seconds| Some(case.now().plus(Duration::from_secs(seconds)));
    let claimed = case.bring(case.task(), State::Claimed).await;
    let explanation = explain(case, claimed).await;
    assert_eq!((explanation.why, explanation.next_change_at), (Why::AboutToStart, until(30)));
    assert_eq!(explanation.blockers, holder);
    let quick = NewTask { timeout: Some(Duration::from_secs(9)), ..case.task() };
    let running = case.bring(quick, State::Running).await;
    let explanation = explain(case, running).await;
    assert_eq!((explanation.why, explanation.next_change_at), (Why::Running, until(9)));
    assert_eq!(explanation.blockers, holder);
}

/// C59: the lease is over and no leader has acted yet; also if the worker has left.
async fn its_worker_fell_silent(case: &Case) {
    for leaves in [false, true] {
        let id = case.bring(case.task(), State::Running).await;
        if leaves {
            case.store().deregister(WorkerId::new("bringer").unwrap()).await.unwrap();
        } else {
            case.pass(30);
        }
        assert_eq!(why(case, id).await, Why::LeaseExpired, "left: {leaves}");
    }
}

/// Final, and since when.
async fn it_is_over(case: &Case) {
    for state in STATES.into_iter().filter(|state| state.is_final()) {
        let id = case.bring(case.task(), state).await;
        let explanation = explain(case, id).await;
        assert_eq!((explanation.why, explanation.next_change_at), (Why::Final, None));
        assert!(explanation.detail.contains(state.word()), "{}", explanation.detail);
    }
}
