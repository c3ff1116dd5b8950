//! How many tasks there are.

use windlass_core::{Command, Name, NewTask, Retention, State};

use super::{Case, KIND, STATES, scenarios};
use crate::Count;

scenarios![each_sort_is_counted, counts_follow_every_change, what_is_gone_is_not_counted,];

fn count(namespace: &str, queue: &str, kind: &str, state: State, tasks: u64) -> Count {
    let (namespace, queue) = (Name::namespace(namespace).unwrap(), Name::queue(queue).unwrap());
    Count { namespace, queue, kind: Name::kind(kind).unwrap(), is_step: false, state, tasks }
}

/// 2.15 for tasks, I20: by namespace, queue, kind and state, in that order.
async fn each_sort_is_counted(case: &Case) {
    let tenant = NewTask { namespace: Name::namespace("a-tenant").unwrap(), ..case.task() };
    case.submit(tenant).await;
    case.submit(NewTask { queue: Name::queue("a-queue").unwrap(), ..case.task() }).await;
    case.submit(NewTask { kind: Name::kind("a-kind").unwrap(), ..case.task() }).await;
    for _ in 0..2 {
        for state in STATES {
            case.bring(case.task(), state).await;
        }
    }
    let mut expected = vec![
        count("a-tenant", "default", KIND, State::Pending, 1),
        count("default", "a-queue", KIND, State::Pending, 1),
        count("default", "default", "a-kind", State::Pending, 1),
    ];
    expected.extend(STATES.map(|state| count("default", "default", KIND, state, 2)));
    assert_eq!(case.store().counts().await.unwrap(), expected);
}

/// I20: through a whole life, and never a zero.
async fn counts_follow_every_change(case: &Case) {
    let only = |state| vec![count("default", "default", KIND, state, 1)];
    let id = case.submit(case.task()).await;
    assert_eq!(case.store().counts().await.unwrap(), only(State::Pending));
    let claimed = case.claim_one(&case.worker("w").await).await;
    assert_eq!(case.store().counts().await.unwrap(), only(State::Claimed));
    case.fail(&claimed, "x").await;
    assert_eq!(case.store().counts().await.unwrap(), only(State::WaitingForRetry));
    case.pass(1);
    case.chores().await;
    assert_eq!(case.store().counts().await.unwrap(), only(State::Pending));
    case.cancel(id).await.unwrap();
    assert_eq!(case.store().counts().await.unwrap(), only(State::Cancelled));
}

/// I20: deleted, pruned and refused ones are not there.
async fn what_is_gone_is_not_counted(case: &Case) {
    let deleted = case.bring(case.task(), State::Completed).await;
    case.bring(case.task(), State::Failed).await;
    case.apply(Command::Delete { task: deleted }).await.unwrap();
    case.pass(1);
    let retention = Retention::default().keep(State::Failed, std::time::Duration::ZERO).unwrap();
    assert_eq!(case.store().prune(retention.clone(), 9).await.unwrap(), 1);
    case.refused(NewTask { key: Some(String::new()), ..case.task() }).await;
    assert_eq!(case.store().counts().await.unwrap(), []);
}
