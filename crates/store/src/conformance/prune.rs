//! Deleting what has been kept long enough.

use std::time::Duration;

use windlass_core::{Name, Retention, State, TaskId, WorkerId};

use super::{Case, KIND, STATES, scenarios};

scenarios![
    each_state_has_its_own_age,
    an_age_must_be_exceeded,
    what_is_not_over_is_never_pruned,
    without_a_rule_everything_is_kept,
    the_limit_bounds_one_round,
    the_oldest_go_first,
    the_oldest_go_first_whatever_their_state,
    pruning_frees_the_key,
    a_reopened_task_is_young_again,
];

const DAY: Duration = Duration::from_secs(86_400);

fn keep(rules: &[(State, Duration)]) -> Retention {
    let all = Retention::default();
    rules.iter().fold(all, |retention, (state, age)| retention.keep(*state, *age).unwrap())
}

async fn left(case: &Case, ids: &[TaskId]) -> Vec<TaskId> {
    let mut left = Vec::new();
    for id in ids {
        left.extend(case.store().task(*id).await.unwrap().map(|record| record.task.id));
    }
    left
}

/// 0.13, C13: completed after a week, dead letters after a month; the count is returned.
async fn each_state_has_its_own_age(case: &Case) {
    let completed = case.bring(case.task(), State::Completed).await;
    let dead = case.bring(case.task(), State::DeadLetter).await;
    let failed = case.bring(case.task(), State::Failed).await;
    let retention = keep(&[(State::Completed, 7 * DAY), (State::DeadLetter, 30 * DAY)]);
    assert_eq!(case.store().prune(retention.clone(), 100).await.unwrap(), 0);
    case.clock.advance(8 * DAY);
    assert_eq!(case.store().prune(retention.clone(), 100).await.unwrap(), 1);
    assert_eq!(left(case, &[completed, dead, failed]).await, [dead, failed]);
    case.clock.advance(30 * DAY);
    assert_eq!(case.store().prune(retention.clone(), 100).await.unwrap(), 1);
    assert_eq!(left(case, &[completed, dead, failed]).await, [failed], "no rule for failed ones");
}

/// 0.13: older than the age, counted from the end and not from the submission.
async fn an_age_must_be_exceeded(case: &Case) {
    let id = case.submit(case.task()).await;
    case.clock.advance(100 * DAY);
    let claimed = case.claim_one(&case.worker("w").await).await;
    case.complete(&claimed).await;
    let retention = keep(&[(State::Completed, 7 * DAY)]);
    case.clock.advance(7 * DAY);
    assert_eq!(case.store().prune(retention.clone(), 100).await.unwrap(), 0, "to the microsecond");
    case.clock.advance(Duration::from_micros(1));
    assert_eq!(case.store().prune(retention.clone(), 100).await.unwrap(), 1);
    assert_eq!(case.store().task(id).await.unwrap(), None);
}

/// C13, I1: only final states can be named, and nothing else goes.
async fn what_is_not_over_is_never_pruned(case: &Case) {
    let (mut rules, mut alive) = (Vec::new(), Vec::new());
    for state in STATES {
        let id = case.bring(case.task(), state).await;
        if state.is_final() {
            rules.push((state, Duration::ZERO));
        } else {
            assert!(Retention::default().keep(state, DAY).is_err(), "{state} has no age");
            alive.push(id);
        }
    }
    case.clock.advance(10_000 * DAY);
    assert_eq!(case.store().prune(keep(&rules), 100).await.unwrap(), 5);
    assert_eq!(left(case, &alive).await, alive);
    assert_eq!(case.store().counts().await.unwrap().len(), alive.len());
}

/// Off by default.
async fn without_a_rule_everything_is_kept(case: &Case) {
    for state in STATES {
        case.bring(case.task(), state).await;
    }
    case.clock.advance(10_000 * DAY);
    case.store().deregister(WorkerId::new("bringer").unwrap()).await.unwrap();
    let before = case.snapshot().await;
    assert_eq!(case.store().prune(Retention::default(), 100).await.unwrap(), 0);
    let for_ever = keep(&[(State::Completed, Duration::MAX)]);
    assert_eq!(case.store().prune(for_ever.clone(), 100).await.unwrap(), 0);
    assert_eq!(case.snapshot().await, before);
}

/// 0.13: at most so many at once; the rest the next time.
async fn the_limit_bounds_one_round(case: &Case) {
    for _ in 0..5 {
        case.bring(case.task(), State::Cancelled).await;
    }
    case.pass(1);
    let retention = keep(&[(State::Cancelled, Duration::ZERO)]);
    let mut counts = Vec::new();
    for limit in [0, 2, 2, 2, 2] {
        counts.push(case.store().prune(retention.clone(), limit).await.unwrap());
    }
    assert_eq!(counts, [0, 2, 2, 1, 0]);
}

/// By the moment they ended.
async fn the_oldest_go_first(case: &Case) {
    let submitted = case.submit_many(3).await;
    for place in [2, 0, 1] {
        case.cancel(submitted[place]).await.unwrap();
        case.pass(1);
    }
    let retention = keep(&[(State::Cancelled, Duration::ZERO)]);
    case.store().prune(retention.clone(), 1).await.unwrap();
    assert_eq!(left(case, &submitted).await, submitted[..2]);
    case.store().prune(retention.clone(), 1).await.unwrap();
    assert_eq!(left(case, &submitted).await, submitted[1..2]);
}

/// As `Store::prune` says: "oldest first, at most `limit`".
async fn the_oldest_go_first_whatever_their_state(case: &Case) {
    let old = case.bring(case.task(), State::DeadLetter).await;
    case.pass(1);
    let new = case.bring(case.task(), State::Completed).await;
    case.pass(1);
    let retention = keep(&[(State::Completed, Duration::ZERO), (State::DeadLetter, Duration::ZERO)]);
    assert_eq!(case.store().prune(retention.clone(), 1).await.unwrap(), 1);
    assert_eq!(left(case, &[old, new]).await, [new]);
}

/// C79: retention frees keys.
async fn pruning_frees_the_key(case: &Case) {
    case.bring(case.task_with_key("k"), State::Completed).await;
    case.pass(1);
    let retention = keep(&[(State::Completed, Duration::ZERO)]);
    case.store().prune(retention.clone(), 100).await.unwrap();
    assert_eq!(
        case.store().find(Name::default(), Name::kind(KIND).unwrap(), "k".into()).await.unwrap(),
        None
    );
    assert!(case.store().submit(vec![case.task_with_key("k")]).await.unwrap()[0].created);
}

/// I1: what an operator brought back is not old, and its next end counts anew.
async fn a_reopened_task_is_young_again(case: &Case) {
    let id = case.bring(case.task(), State::DeadLetter).await;
    case.clock.advance(30 * DAY);
    case.retry(id, true).await.unwrap();
    let retention = keep(&[(State::DeadLetter, 7 * DAY)]);
    assert_eq!(case.store().prune(retention.clone(), 100).await.unwrap(), 0);
    let claimed = case.claim_one(&case.worker("w").await).await;
    case.fail(&claimed, "again").await;
    assert_eq!(case.store().prune(retention.clone(), 100).await.unwrap(), 0);
}
