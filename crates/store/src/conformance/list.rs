//! Listing tasks: pages, cursors, filters.

use windlass_core::{Command, Entity, Lane, Name, NewTask, State, TaskId, Timestamp, WorkerId};

use super::{Case, STATES, entity, invariants, scenarios, token};
use crate::{Cursor, Filter, Page};

scenarios![
    both_orders_follow_submission,
    pages_cover_everything_once,
    a_cursor_is_stable_while_tasks_come_and_go,
    a_cursor_survives_being_written_down,
    each_filter_filters,
    filters_are_joined,
    a_filtered_listing_equals_the_enumeration,
    pages_of_a_filtered_listing_miss_nothing,
    stale_tasks_are_found,
    the_tasks_of_a_worker_are_found,
    a_page_has_one_to_a_thousand_tasks,
    an_empty_store_lists_nothing,
];

/// Follows the cursors to the end.
async fn list(case: &Case, filter: &Filter, limit: usize, oldest_first: bool) -> Vec<TaskId> {
    let (mut ids, mut page) = (Vec::new(), Page { limit, after: None, oldest_first });
    for _ in 0..1000 {
        let listing = case.store().tasks(filter.clone(), page).await.unwrap();
        assert!(listing.tasks.len() <= limit, "{} tasks on a page of {limit}", listing.tasks.len());
        ids.extend(listing.tasks.iter().map(|task| task.id));
        page.after = listing.next;
        if page.after.is_none() {
            return ids;
        }
    }
    panic!("the pages do not end");
}

/// 0.14, C10: newest first by default, oldest first for the pending query; the clock does not matter.
async fn both_orders_follow_submission(case: &Case) {
    let mut submitted = case.submit_many(2).await;
    case.clock.set(case.now().minus(std::time::Duration::from_secs(60)));
    submitted.extend(case.submit_many(2).await);
    assert_eq!(list(case, &Filter::default(), 100, true).await, submitted);
    submitted.reverse();
    assert_eq!(list(case, &Filter::default(), 100, false).await, submitted);
    assert!(!Page::default().oldest_first);
}

/// C76: pages of every size, none twice, none missing.
async fn pages_cover_everything_once(case: &Case) {
    let mut submitted = case.submit_many(7).await;
    for oldest_first in [true, false] {
        for limit in 1..=8 {
            assert_eq!(list(case, &Filter::default(), limit, oldest_first).await, submitted, "by {limit}");
        }
        submitted.reverse();
    }
}

/// C76: between two pages others submit, change and delete.
async fn a_cursor_is_stable_while_tasks_come_and_go(case: &Case) {
    for oldest_first in [true, false] {
        for old in list(case, &Filter::default(), 100, true).await {
            case.cancel(old).await.unwrap();
            case.apply(Command::Delete { task: old }).await.unwrap();
        }
        let submitted = case.submit_many(6).await;
        let mut wanted = submitted.clone();
        if !oldest_first {
            wanted.reverse();
        }
        let mut page = Page { limit: 3, after: None, oldest_first };
        let first = case.store().tasks(Filter::default(), page).await.unwrap();
        assert!(first.tasks.iter().map(|task| task.id).eq(wanted[..3].iter().copied()));
        // The task the cursor stands on goes, so does the one after it, and a new one comes.
        for gone in &wanted[2..4] {
            case.cancel(*gone).await.unwrap();
            case.apply(Command::Delete { task: *gone }).await.unwrap();
        }
        let new = case.submit(case.task()).await;
        let mut rest = wanted[4..].to_vec();
        rest.extend(oldest_first.then_some(new));
        page.after = first.next;
        let mut found = Vec::new();
        while page.after.is_some() {
            let next = case.store().tasks(Filter::default(), page).await.unwrap();
            found.extend(next.tasks.iter().map(|task| task.id));
            page.after = next.next;
        }
        assert_eq!(found, rest, "oldest first: {oldest_first}");
    }
}

/// A cursor is a text for programs, and reads back.
async fn a_cursor_survives_being_written_down(case: &Case) {
    let submitted = case.submit_many(2).await;
    let page = Page { limit: 1, after: None, oldest_first: true };
    let cursor = case.store().tasks(Filter::default(), page).await.unwrap().next.unwrap();
    let read: Cursor = cursor.to_string().parse().unwrap();
    let rest = case.store().tasks(Filter::default(), Page { after: Some(read), ..page }).await.unwrap();
    assert_eq!(rest.tasks[0].id, submitted[1]);
    let last: Cursor = "c7fffffffffffffff".parse().unwrap();
    let none = case.store().tasks(Filter::default(), Page { after: Some(last), ..page }).await.unwrap();
    assert_eq!((none.tasks, none.next), (vec![], None), "after the last place there is nothing");
    for bad in ["", "c", "1", "c-1", "c+1", "cffffffffffffffff", "x1", "c1 "] {
        assert!(bad.parse::<Cursor>().is_err(), "{bad:?}");
    }
}

/// A task that differs from the default one in everything a filter can ask for.
fn special(case: &Case) -> NewTask {
    NewTask {
        namespace: Name::namespace("tenant").unwrap(),
        queue: Name::queue("q2").unwrap(),
        kind: Name::kind("k2").unwrap(),
        lane: Some(Lane::of(&entity("planner:1"))),
        tags: vec!["red".into(), "it's \"blue\" %".into()],
        ..case.task()
    }
}

/// The filters that `special` passes and a default task does not.
fn filters() -> Vec<Filter> {
    let all = Filter::default();
    vec![
        Filter { namespace: Some(Name::namespace("tenant").unwrap()), ..all.clone() },
        Filter { queue: Some(Name::queue("q2").unwrap()), ..all.clone() },
        Filter { kind: Some(Name::kind("k2").unwrap()), ..all.clone() },
        Filter { entity: Some(entity("planner:1")), ..all.clone() },
        Filter { tag: Some("red".into()), ..all.clone() },
        Filter { tag: Some("it's \"blue\" %".into()), ..all },
    ]
}

/// 4.7, C76: by state, namespace, queue, kind, entity and tag.
async fn each_filter_filters(case: &Case) {
    let special = case.submit(special(case)).await;
    let lane = Some(Lane::new("planner:1", 1).unwrap());
    let tags = vec!["re".into(), "redder".into(), "Red".into(), "blue".into()];
    case.submit(NewTask { lane, tags, ..case.task() }).await;
    for filter in filters() {
        assert_eq!(list(case, &filter, 100, true).await, [special], "{filter:?}");
    }
    for tag in ["", "%", "r%", "_ed", "[red]"] {
        let filter = Filter { tag: Some(tag.into()), ..Filter::default() };
        assert_eq!(list(case, &filter, 100, true).await, [], "tag {tag:?}");
    }
}

/// Everything that is set must hold; several states are either of them.
async fn filters_are_joined(case: &Case) {
    let id = case.submit(special(case)).await;
    case.submit(case.task()).await;
    let join = |mut all: Filter, one: Filter| {
        all.namespace = one.namespace.or(all.namespace);
        all.queue = one.queue.or(all.queue);
        all.kind = one.kind.or(all.kind);
        all.entity = one.entity.or(all.entity);
        all.tag = one.tag.or(all.tag);
        all.worker = one.worker.or(all.worker);
        all
    };
    let mut all = filters().into_iter().fold(Filter::default(), join);
    assert_eq!(list(case, &all, 100, true).await, [id]);
    all.states = vec![State::Pending, State::Running];
    assert_eq!(list(case, &all, 100, true).await, [id]);
    for spoiled in [
        Filter { states: vec![State::Running], ..all.clone() },
        Filter { namespace: Some(Name::default()), ..all.clone() },
        Filter { queue: Some(Name::default()), ..all.clone() },
        Filter { kind: Some(Name::kind("k3").unwrap()), ..all.clone() },
        Filter { entity: Some(entity("planner:2")), ..all.clone() },
        Filter { tag: Some("green".into()), ..all.clone() },
        Filter { worker: Some(WorkerId::new("w").unwrap()), ..all.clone() },
        Filter { updated_before: Some(case.now()), ..all.clone() },
    ] {
        assert_eq!(list(case, &spoiled, 100, true).await, [], "{spoiled:?}");
    }
}

/// 0.14, C76: a listing is what looking at every task would find.
async fn a_filtered_listing_equals_the_enumeration(case: &Case) {
    let entities: [Option<Entity>; 3] = [None, Some(entity("planner:1")), Some(entity("planner:2"))];
    for (n, state) in STATES.into_iter().enumerate() {
        for tag in ["red", "blue"] {
            let namespace = Name::namespace(["default", "tenant"][n % 2]).unwrap();
            let new = NewTask { namespace, tags: vec![tag.into()], ..case.task() };
            case.bring(new, state).await;
        }
        case.pass(1);
    }
    for entity in entities.iter().flatten() {
        case.submit(NewTask { lane: Some(Lane::of(entity)), ..case.task() }).await;
    }
    let all = invariants::dump(&*case.store()).await;
    let mut choices = Vec::new();
    for states in STATES.map(|state| vec![state]).into_iter().chain([vec![], STATES[2..5].to_vec()]) {
        for namespace in [None, Some(Name::default())] {
            for tag in [None, Some("red".to_owned())] {
                for entity in &entities {
                    let (states, namespace, tag) = (states.clone(), namespace.clone(), tag.clone());
                    let filter =
                        Filter { states, namespace, tag, entity: entity.clone(), ..Filter::default() };
                    choices.push(Filter { updated_before: Some(case.now()), ..filter.clone() });
                    choices.push(filter);
                }
            }
        }
    }
    for filter in choices {
        let wanted = all.iter().filter(|record| filter.wants(&record.task)).map(|record| record.task.id);
        assert_eq!(list(case, &filter, 3, true).await, wanted.collect::<Vec<_>>(), "{filter:?}");
    }
}

/// C76: what the filter leaves out does not end the listing.
async fn pages_of_a_filtered_listing_miss_nothing(case: &Case) {
    let mut wanted = Vec::new();
    for n in 0..30 {
        let tags = if n % 7 == 0 { vec!["rare".to_owned()] } else { Vec::new() };
        let rare = !tags.is_empty();
        let id = case.submit(NewTask { tags, ..case.task() }).await;
        wanted.extend(rare.then_some(id));
    }
    let filter = Filter { tag: Some("rare".into()), ..Filter::default() };
    for limit in [1, 2, 4, 5, 6] {
        assert_eq!(list(case, &filter, limit, true).await, wanted, "by {limit}");
    }
}

/// 0.12: in progress and unchanged for half an hour.
async fn stale_tasks_are_found(case: &Case) {
    let stale = case.bring(case.task(), State::Running).await;
    case.submit(case.task()).await;
    case.pass(1);
    case.bring(case.task(), State::Claimed).await;
    case.pass(1800 - 1);
    let half_an_hour_ago =
        |extra: i64| Timestamp::from_micros(case.now().as_micros() - 1_800_000_000 + extra);
    let states = vec![State::Claimed, State::Running];
    let report = |extra| Filter {
        states: states.clone(),
        updated_before: Some(half_an_hour_ago(extra)),
        ..Filter::default()
    };
    assert_eq!(list(case, &report(0), 100, true).await, [], "half an hour, and not longer");
    assert_eq!(list(case, &report(1), 100, true).await, [stale]);
}

/// 1.5: what it holds, and what it was the last to hold; not what it gave back.
async fn the_tasks_of_a_worker_are_found(case: &Case) {
    let (ada, bob) = (case.worker("ada").await, case.worker("bob").await);
    let taken = |state| async move { (case.bring(case.task(), state).await, state) };
    for state in STATES {
        taken(state).await;
    }
    let ids = case.submit_many(6).await;
    let mut held = Vec::new();
    for id in &ids {
        held.push(case.take(*id, if *id == ids[5] { &bob } else { &ada }).await);
    }
    case.apply(Command::Start { token: token(&held[1]), at: None }).await.unwrap();
    case.complete(&held[2]).await;
    case.cancel(ids[3]).await.unwrap();
    case.fail(&held[4], "later").await;
    let of = |worker: &WorkerId, states: &[State]| Filter {
        worker: Some(worker.clone()),
        states: states.to_vec(),
        ..Filter::default()
    };
    for limit in [1, 2, 100] {
        assert_eq!(list(case, &of(&ada, &[]), limit, true).await, ids[..4], "by {limit}");
        let in_progress = of(&ada, &[State::Claimed, State::Running]);
        assert_eq!(list(case, &in_progress, limit, true).await, ids[..2], "by {limit}");
        assert_eq!(list(case, &of(&bob, &[]), limit, false).await, ids[5..], "by {limit}");
    }
    assert_eq!(list(case, &of(&ada, &[State::Cancelled]), 9, true).await, [ids[3]]);
    assert_eq!(list(case, &of(&ada, &[State::Pending, State::WaitingForRetry]), 9, true).await, []);
    assert_eq!(list(case, &of(&WorkerId::new("ad").unwrap(), &[]), 9, true).await, []);
}

/// Limits: 0 and 1,001 are refused.
async fn a_page_has_one_to_a_thousand_tasks(case: &Case) {
    for (limit, code) in [(0, Some("invalid_task")), (1, None), (1000, None), (1001, Some("invalid_task"))] {
        let page = Page { limit, ..Page::default() };
        let answer = case.store().tasks(Filter::default(), page).await;
        assert_eq!(answer.err().map(|error| error.code()), code, "limit {limit}");
    }
    let page = Page { limit: usize::MAX, ..Page::default() };
    assert!(case.store().tasks(Filter::default(), page).await.is_err());
}

/// 4.7: nothing, and no cursor.
async fn an_empty_store_lists_nothing(case: &Case) {
    let listing = case.store().tasks(Filter::default(), Page::default()).await.unwrap();
    assert_eq!(listing, crate::Listing::default());
}
