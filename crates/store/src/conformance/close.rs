//! Closing a store.

use std::time::Duration;

use windlass_core::{Firing, Name, NewSchedule, NewTask, NewWorker, Retention, State};

use super::{Case, KIND, claim_of, entity, firing, hourly, scenarios};
use crate::{Error, Filter, Page, Turn};

scenarios![
    every_call_says_that_it_is_closed,
    a_bad_request_is_not_looked_at,
    closing_twice_is_fine,
    what_was_acknowledged_is_there_when_it_is_opened_again,
];

/// 4.7, 4.8: the tenth error, from every method.
async fn every_call_says_that_it_is_closed(case: &Case) {
    let id = case.submit(case.task()).await;
    let worker = case.worker("w").await;
    let (name, kind, planner) = (Name::default(), Name::kind(KIND).unwrap(), entity("planner:1"));
    let slot = firing(&case.schedule(hourly("s", case.now())).await, id);
    let store = case.store();
    store.close().await.unwrap();
    let answers = [
        ("submit", store.submit(vec![case.task()]).await.err()),
        ("submit nothing", store.submit(Vec::new()).await.err()),
        ("turn", store.turn(Turn::default()).await.err()),
        ("apply", store.apply(Vec::new()).await.err()),
        ("claim", store.claim(claim_of(&worker, 1)).await.err()),
        ("register", store.register(NewWorker::new(worker.clone())).await.err()),
        ("heartbeat", store.heartbeat(worker.clone(), Vec::new()).await.err()),
        ("deregister", store.deregister(worker.clone()).await.err()),
        ("workers", store.workers().await.err()),
        ("campaign", store.campaign(worker.clone(), Duration::from_secs(30)).await.err()),
        ("resign", store.resign(worker.clone(), 1).await.err()),
        ("leader", store.leader().await.err()),
        ("due", store.due(1).await.err()),
        ("task", store.task(id).await.err()),
        ("find", store.find(name.clone(), kind.clone(), "k".into()).await.err()),
        ("tasks", store.tasks(Filter::default(), Page::default()).await.err()),
        ("counts", store.counts().await.err()),
        ("facts", store.facts(id).await.err()),
        ("explain", store.explain(id).await.err()),
        ("pause", store.pause(name.clone(), name.clone(), true).await.err()),
        ("paused", store.paused().await.err()),
        ("set_entity", store.set_entity(name.clone(), planner.clone(), true).await.err()),
        ("has_entity", store.has_entity(name.clone(), planner.clone()).await.err()),
        ("entities", store.entities(name.clone(), None, 1).await.err()),
        ("set_schedule", store.set_schedule(hourly("s", case.now())).await.err()),
        ("remove_schedule", store.remove_schedule(name.clone(), name.clone()).await.err()),
        ("schedules", store.schedules().await.err()),
        ("fire", store.fire(slot.clone(), None).await.err()),
        ("reconcile", store.reconcile(None, 1).await.err()),
        ("describe", store.describe().await.err()),
        ("events", store.events(None, 1).await.err()),
        ("access_tokens", store.access_tokens().await.err()),
        ("had_access_tokens", store.had_access_tokens().await.err()),
        ("touch_access_tokens", store.touch_access_tokens(vec![(name.clone(), case.now())]).await.err()),
        ("revoke_access_token", store.revoke_access_token(name.clone()).await.err()),
        ("audits", store.audits(Page::default()).await.err()),
        ("now", store.now().await.err()),
        ("prune", store.prune(Retention::default(), 1).await.err()),
    ];
    for (method, error) in answers {
        assert_eq!(error, Some(Error::Closed), "{method}");
    }
    assert_eq!(Error::Closed.code(), "store_closed");
    drop(store.watch());
}

/// 4.7: "every call" includes the wrong ones.
async fn a_bad_request_is_not_looked_at(case: &Case) {
    let store = case.store();
    store.close().await.unwrap();
    let bad = NewTask { key: Some(String::new()), ..case.task() };
    assert_eq!(store.submit(vec![bad]).await.err(), Some(Error::Closed));
    let page = Page { limit: 0, ..Page::default() };
    assert_eq!(store.tasks(Filter::default(), page).await.err(), Some(Error::Closed));
    let turn = Turn { term: Some(9), ..Turn::default() };
    assert_eq!(store.turn(turn).await.err(), Some(Error::Closed));
    assert_eq!(store.entities(Name::default(), None, 0).await.err(), Some(Error::Closed));
    let bad = NewSchedule { cron: String::new(), ..hourly("s", case.now()) };
    assert_eq!(store.set_schedule(bad.clone()).await.err(), Some(Error::Closed));
    let unknown = firing(&bad.admit(None, case.now()), case.task().id);
    let unknown = Firing { tasks: vec![NewTask { key: Some(String::new()), ..case.task() }], ..unknown };
    assert_eq!(store.fire(unknown, Some(9)).await.err(), Some(Error::Closed));
}

/// 4.7: idempotent.
async fn closing_twice_is_fine(case: &Case) {
    let store = case.store();
    for _ in 0..3 {
        store.close().await.unwrap();
    }
}

/// I1: closing loses nothing. A store that lives in its process only cannot be opened again, and is let off.
async fn what_was_acknowledged_is_there_when_it_is_opened_again(case: &Case) {
    let id = case.bring(case.task_with_key("k"), State::Completed).await;
    case.submit(case.task()).await;
    let before = case.snapshot().await;
    case.store().close().await.unwrap();
    if !case.is_gone().await {
        assert_eq!(case.snapshot().await, before);
        assert_eq!(case.state(id).await, State::Completed);
    }
}
