//! Claiming what there is: order, kinds, queues, namespaces, limits.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::task::JoinSet;
use windlass_core::{Ageing, Json, Name, NewTask, Rejected, RetryPolicy, Start, State, WorkerId};

use super::{Case, KIND, STATES, claim_of, ids, scenarios};
use crate::Claim;

scenarios![
    first_come_first_served,
    higher_priority_goes_first,
    the_order_is_that_of_submission_even_if_the_clock_goes_back,
    ageing_lifts_what_has_waited,
    used_attempts_can_lift_too,
    a_retried_task_takes_its_old_place,
    only_kinds_that_were_asked_for,
    only_queues_that_were_asked_for,
    several_queues_and_kinds_are_one_line,
    only_tasks_of_the_namespace,
    only_pending_tasks,
    no_more_than_the_limit,
    a_claim_is_recorded,
    what_is_held_is_not_handed_out,
    an_unknown_worker_gets_nothing,
    claims_at_once_share_what_there_is,
];

/// 0.8, 1.4, C10: FIFO, also among tasks of the same microsecond.
async fn first_come_first_served(case: &Case) {
    let mut wanted = case.submit_many(3).await;
    case.pass(1);
    wanted.extend(case.submit_many(2).await);
    assert_eq!(ids(&case.claim(&case.worker("w").await, 9).await), wanted);
}

/// 1.4: priority first, then first come.
async fn higher_priority_goes_first(case: &Case) {
    let mut submitted = Vec::new();
    for priority in [0, 5, -3, 5, 0] {
        submitted.push(case.submit(NewTask { priority, ..case.task() }).await);
        case.pass(1);
    }
    let wanted: Vec<_> = [1, 3, 0, 4, 2].map(|place| submitted[place]).into();
    assert_eq!(ids(&case.claim(&case.worker("w").await, 9).await), wanted);
}

/// C10: a clock that goes back does not reorder what has come.
async fn the_order_is_that_of_submission_even_if_the_clock_goes_back(case: &Case) {
    let first = case.submit(case.task()).await;
    case.clock.set(case.now().minus(Duration::from_secs(600)));
    let second = case.submit(case.task()).await;
    assert_eq!(ids(&case.claim(&case.worker("w").await, 9).await), [first, second]);
}

/// C44, I16: monotone ageing. Two hours at one point per hour beat one point, and not three.
async fn ageing_lifts_what_has_waited(case: &Case) {
    let aged = |priority: i32| {
        let ageing = Ageing { per_hour: 1000, per_retry: 0 };
        NewTask { priority, ageing, ..case.task() }
    };
    let old = case.submit(aged(0)).await;
    case.pass(7200);
    let low = case.submit(aged(1)).await;
    let high = case.submit(aged(3)).await;
    assert_eq!(ids(&case.claim(&case.worker("w").await, 9).await), [high, old, low]);
}

/// C44: with a bonus per attempt a retry goes before fresh work of the same priority.
async fn used_attempts_can_lift_too(case: &Case) {
    let worker = case.worker("w").await;
    let first = case.submit(NewTask { priority: 1, ..case.task() }).await;
    let claimed = case.take(first, &worker).await;
    let lifted = NewTask { ageing: Ageing { per_hour: 0, per_retry: 2000 }, ..case.task() };
    let lifted = case.submit(lifted).await;
    let attempt = case.take(lifted, &worker).await;
    case.fail(&claimed, "no").await;
    case.fail(&attempt, "no").await;
    case.pass(2);
    case.chores().await;
    assert_eq!(ids(&case.claim(&worker, 9).await), [lifted, first], "2 points against 1");
}

/// 0.10: a retry stands where its submission put it, not at the end.
async fn a_retried_task_takes_its_old_place(case: &Case) {
    let worker = case.worker("w").await;
    let old = case.submit(case.task()).await;
    let claimed = case.claim_one(&worker).await;
    case.fail(&claimed, "no").await;
    case.pass(1);
    let new = case.submit(case.task()).await;
    case.chores().await;
    assert_eq!(ids(&case.claim(&worker, 9).await), [old, new]);
}

/// 4: a kind that nobody asks for stays pending; it is never discarded.
async fn only_kinds_that_were_asked_for(case: &Case) {
    let kind = Name::kind("test:unheard").unwrap();
    let unheard = case.submit(NewTask { kind: kind.clone(), priority: 9, ..case.task() }).await;
    let known = case.submit(case.task()).await;
    let worker = case.worker("w").await;
    assert_eq!(ids(&case.claim(&worker, 9).await), [known]);
    assert_eq!(case.state(unheard).await, State::Pending);
    let nothing = Claim { kinds: Vec::new(), ..claim_of(&worker, 9) };
    assert_eq!(case.store().claim(nothing).await.unwrap(), [], "no kinds, no tasks");
    let ask = Claim { kinds: vec![kind], ..claim_of(&worker, 9) };
    assert_eq!(ids(&case.store().claim(ask).await.unwrap()), [unheard]);
}

/// Workers subscribe to queues.
async fn only_queues_that_were_asked_for(case: &Case) {
    let queue = Name::queue("slow").unwrap();
    let slow = case.submit(NewTask { queue: queue.clone(), priority: 9, ..case.task() }).await;
    let usual = case.submit(case.task()).await;
    let worker = case.worker("w").await;
    assert_eq!(ids(&case.claim(&worker, 9).await), [usual]);
    let nothing = Claim { queues: Vec::new(), ..claim_of(&worker, 9) };
    assert_eq!(case.store().claim(nothing).await.unwrap(), [], "no queues, no tasks");
    let ask = Claim { queues: vec![queue], ..claim_of(&worker, 9) };
    assert_eq!(ids(&case.store().claim(ask).await.unwrap()), [slow]);
}

/// 1.4: over several queues and kinds the order is one; naming one twice gives nothing twice.
async fn several_queues_and_kinds_are_one_line(case: &Case) {
    let (other_queue, other_kind) = (Name::queue("q2").unwrap(), Name::kind("k2").unwrap());
    let plain = case.submit(case.task()).await;
    let first = case.submit(NewTask { queue: other_queue.clone(), priority: 2, ..case.task() }).await;
    let second = case.submit(NewTask { kind: other_kind.clone(), priority: 1, ..case.task() }).await;
    let both = NewTask { queue: other_queue.clone(), kind: other_kind.clone(), ..case.task() };
    let both = case.submit(both).await;
    let claim = Claim {
        queues: vec![other_queue.clone(), Name::default(), other_queue],
        kinds: vec![Name::kind(KIND).unwrap(), other_kind.clone(), other_kind],
        ..claim_of(&case.worker("w").await, 9)
    };
    assert_eq!(ids(&case.store().claim(claim).await.unwrap()), [first, second, plain, both]);
}

/// Tenants do not see each other's tasks.
async fn only_tasks_of_the_namespace(case: &Case) {
    let namespace = Name::namespace("tenant").unwrap();
    let theirs = NewTask { namespace: namespace.clone(), priority: 9, ..case.task() };
    let theirs = case.submit(theirs).await;
    let ours = case.submit(case.task()).await;
    let worker = case.worker("w").await;
    assert_eq!(ids(&case.claim(&worker, 9).await), [ours]);
    let ask = Claim { namespace, ..claim_of(&worker, 9) };
    assert_eq!(ids(&case.store().claim(ask).await.unwrap()), [theirs]);
}

/// 1.4, I6: of all states only pending is claimable, and the moment alone does not change that: a leader
/// does.
async fn only_pending_tasks(case: &Case) {
    let mut pending = None;
    for state in STATES {
        let id = case.bring(case.task(), state).await;
        pending = pending.or((state == State::Pending).then_some(id));
    }
    case.pass(7200);
    let claimed = case.claim(&case.worker("w").await, 99).await;
    assert_eq!(ids(&claimed), [pending.unwrap()]);
}

/// 1.4: a batch is as large as the free slots of the worker.
async fn no_more_than_the_limit(case: &Case) {
    let submitted = case.submit_many(5).await;
    let worker = case.worker("w").await;
    assert_eq!(case.claim(&worker, 0).await, [], "nobody asked for any");
    assert_eq!(ids(&case.claim(&worker, 2).await), submitted[..2]);
    assert_eq!(ids(&case.claim(&worker, 2).await), submitted[2..4]);
    assert_eq!(ids(&case.claim(&worker, 2).await), submitted[4..]);
    assert_eq!(case.claim(&worker, 2).await, []);
}

/// 1.4, 4.3: claimed, by whom, when, and the attempt counted at the claim.
async fn a_claim_is_recorded(case: &Case) {
    let payload = Json::payload("[1]").unwrap();
    let start = Start::At(case.now().plus(Duration::from_secs(5)));
    let id = case.submit(NewTask { payload, start, retry: RetryPolicy::default(), ..case.task() }).await;
    case.pass(5);
    case.chores().await;
    case.pass(5);
    let claimed = case.claim_one(&case.worker("w").await).await;
    assert_eq!(claimed.payload.as_str(), "[1]");
    let status = &claimed.task.status;
    assert_eq!((status.state, status.attempt, status.lease), (State::Claimed, 1, 1));
    assert_eq!(status.worker.as_ref().map(WorkerId::as_str), Some("w"));
    assert_eq!((status.claimed_at, status.started_at), (Some(case.now()), None));
    assert_eq!((status.updated_at, status.due_at), (case.now(), None));
    assert_eq!(case.record(id).await.task, claimed.task, "what was handed out is what is stored");
}

/// I4, I6: neither to another worker nor to the same one.
async fn what_is_held_is_not_handed_out(case: &Case) {
    let (one, two) = (case.worker("one").await, case.worker("two").await);
    case.submit(case.task()).await;
    let claimed = case.claim_one(&one).await;
    assert_eq!((case.claim(&two, 9).await, case.claim(&one, 9).await), (vec![], vec![]));
    case.complete(&claimed).await;
    assert_eq!((case.claim(&two, 9).await, case.claim(&one, 9).await), (vec![], vec![]));
}

/// 4.3, 4.8: who is not registered, or has been silent for too long, is an invalid worker.
async fn an_unknown_worker_gets_nothing(case: &Case) {
    case.submit(case.task()).await;
    let (stranger, silent) = (WorkerId::new("stranger").unwrap(), case.worker("silent").await);
    case.pass(30);
    let before = case.snapshot().await;
    for worker in [stranger, silent.clone()] {
        let error = case.store().claim(claim_of(&worker, 9)).await.unwrap_err();
        assert_eq!(error.rejected(), Some(&Rejected::InvalidWorker { worker: worker.clone() }));
        assert_eq!(error.code(), "invalid_worker");
    }
    assert_eq!(case.snapshot().await, before);
    case.store().heartbeat(silent.clone(), Vec::new()).await.unwrap();
    assert_eq!(case.claim(&silent, 9).await.len(), 1, "after a heartbeat it is alive again");
}

/// I4, I18: many claims at once, which a store may make together: whoever asks, for how much and for what,
/// gets its own and no more, best first; one who may not claim hinders nobody; and nothing is left that
/// somebody had a hand free for.
async fn claims_at_once_share_what_there_is(case: &Case) {
    let other = Name::kind("test:other").unwrap();
    let kind = |of: usize| if of % 5 == 4 { other.clone() } else { Name::kind(KIND).unwrap() };
    let mut submitted = BTreeSet::new();
    for n in 0..50 {
        let task = NewTask { kind: kind(n), priority: [0, 7, 3][n % 3], ..case.task() };
        submitted.insert(case.submit(task).await);
    }
    let mut workers = vec![WorkerId::new("stranger").unwrap()];
    for n in 1..20 {
        workers.push(case.worker(&format!("w{n}")).await);
    }
    let mut claims = JoinSet::new();
    for n in 0..40 {
        // Each worker asks twice, some for nothing.
        let (wanted, store) =
            (Claim { kinds: vec![kind(n)], ..claim_of(&workers[n % 20], n % 4) }, case.store());
        claims.spawn(async move { (wanted.clone(), store.claim(wanted).await) });
    }
    let (mut hands, mut taken) = ([0, 0], [0, 0]);
    while let Some(answered) = claims.join_next().await {
        let (wanted, answer) = answered.unwrap();
        if wanted.worker.as_str() == "stranger" {
            let refused = Rejected::InvalidWorker { worker: wanted.worker };
            assert_eq!(answer.unwrap_err().rejected(), Some(&refused));
            continue;
        }
        let claimed = answer.unwrap();
        let is_other = usize::from(wanted.kinds[0] == other);
        hands[is_other] += wanted.limit;
        taken[is_other] += claimed.len();
        assert!(claimed.len() <= wanted.limit, "{} of {}", claimed.len(), wanted.limit);
        assert!(claimed.iter().map(|one| one.task.status.rank).is_sorted_by(|a, b| a >= b), "best first");
        for one in claimed {
            assert!(submitted.remove(&one.task.id), "handed out once");
            assert_eq!(one.task.spec.kind, wanted.kinds[0]);
            assert_eq!(one.task.status.worker.as_ref(), Some(&wanted.worker));
            let record = case.record(one.task.id).await;
            assert_eq!(record.task, one.task);
            let told = record.history.last().unwrap();
            assert_eq!((told.to, told.actor.as_deref()), (State::Claimed, Some(wanted.worker.as_str())));
        }
    }
    assert_eq!(taken, [hands[0].min(40), hands[1].min(10)], "of {hands:?}");
}
