//! Registered entities.

use windlass_core::{Entity, Lane, Name, NewTask, Rejected, limits};

use super::{Case, entity, scenarios};

scenarios![
    an_unknown_entity_is_refused_if_required,
    without_that_any_entity_will_do,
    a_known_entity_is_accepted,
    registering_says_whether_it_was_new,
    entities_belong_to_their_namespace,
    forgetting_concerns_new_tasks_only,
    a_lane_is_not_an_entity,
    entities_are_listed_by_name,
    a_page_of_entities_has_a_limit,
];

fn requiring(case: &Case, text: &str) -> NewTask {
    NewTask { require_entity: true, ..case.task_for(text) }
}

/// 0.6: an application's foreign key.
async fn an_unknown_entity_is_refused_if_required(case: &Case) {
    case.store().set_entity(Name::default(), entity("planner:1"), true).await.unwrap();
    let before = case.snapshot().await;
    for unknown in ["planner:2", "worker:1", "planner:11", "Planner:1", "planner:1 "] {
        let expected = Rejected::UnknownEntity { entity: unknown.into() };
        assert_eq!(case.refused(requiring(case, unknown)).await, expected);
    }
    assert_eq!(case.snapshot().await, before);
}

/// 0.6: the check is asked for by the task.
async fn without_that_any_entity_will_do(case: &Case) {
    case.submit(case.task_for("planner:1")).await;
}

/// 0.6: registered, then accepted, again and again.
async fn a_known_entity_is_accepted(case: &Case) {
    case.store().set_entity(Name::default(), entity("planner:1"), true).await.unwrap();
    for _ in 0..2 {
        let submitted = case.store().submit(vec![requiring(case, "planner:1")]).await.unwrap();
        assert!(submitted[0].created);
    }
}

/// 0.6: and forgetting whether there was anything to forget.
async fn registering_says_whether_it_was_new(case: &Case) {
    let (namespace, planner) = (Name::default(), entity("planner:it's \"1\" 😀"));
    let mut answers = Vec::new();
    for known in [false, true, true, false, false, true] {
        answers.push(case.store().set_entity(namespace.clone(), planner.clone(), known).await.unwrap());
        assert_eq!(case.store().has_entity(namespace.clone(), planner.clone()).await.unwrap(), known);
    }
    assert_eq!(answers, [false, true, false, true, false, true]);
}

/// One tenant's planner is not another's.
async fn entities_belong_to_their_namespace(case: &Case) {
    let tenant = Name::namespace("tenant").unwrap();
    let planner = entity("planner:1");
    case.store().set_entity(tenant.clone(), planner.clone(), true).await.unwrap();
    assert!(!case.store().has_entity(Name::default(), planner.clone()).await.unwrap());
    assert_eq!(case.refused(requiring(case, "planner:1")).await.code(), "unknown_entity");
    case.submit(NewTask { namespace: tenant, ..requiring(case, "planner:1") }).await;
}

/// I1: accepted work is never lost.
async fn forgetting_concerns_new_tasks_only(case: &Case) {
    case.store().set_entity(Name::default(), entity("planner:1"), true).await.unwrap();
    let id = case.submit(requiring(case, "planner:1")).await;
    case.store().set_entity(Name::default(), entity("planner:1"), false).await.unwrap();
    assert_eq!(case.claim_one(&case.worker("w").await).await.task.id, id);
    case.refused(requiring(case, "planner:1")).await;
}

/// There is nothing to require of a plain concurrency key, or of no lane.
async fn a_lane_is_not_an_entity(case: &Case) {
    let lane = Some(Lane::new("planner:1", 2).unwrap());
    case.submit(NewTask { lane, require_entity: true, ..case.task() }).await;
    case.submit(NewTask { require_entity: true, ..case.task() }).await;
}

/// All entities of a namespace, page by page.
async fn listed(case: &Case, namespace: &Name, limit: usize) -> Vec<String> {
    let (mut names, mut after) = (Vec::new(), None::<Entity>);
    loop {
        let page = case.store().entities(namespace.clone(), after.as_ref().cloned(), limit).await.unwrap();
        assert!(page.len() <= limit, "{} entities on a page of {limit}", page.len());
        names.extend(page.iter().map(|entity| entity.as_str().to_owned()));
        after = page.last().cloned();
        if after.is_none() {
            return names;
        }
    }
}

/// 0.6, C76: in the order of their bytes, by pages of any size; those of a namespace, and of no other.
async fn entities_are_listed_by_name(case: &Case) {
    let (here, there) = (Name::default(), Name::namespace("tenant").unwrap());
    let store = case.store();
    assert_eq!(listed(case, &here, 9).await, Vec::<String>::new());
    let names = ["planner:1", "agent:a:b", "planner:it's \"1\" 😀", "Planner:1", "planner:10", "planner:é"];
    for name in names {
        store.set_entity(here.clone(), entity(name), true).await.unwrap();
    }
    store.set_entity(there.clone(), entity("planner:2"), true).await.unwrap();
    let mut expected = names.map(str::to_owned);
    expected.sort();
    for limit in [1, 2, 5, 6, 7, limits::PAGE] {
        assert_eq!(listed(case, &here, limit).await, expected, "by {limit}");
    }
    assert_eq!(listed(case, &there, 9).await, ["planner:2"]);
    store.set_entity(here.clone(), entity("planner:10"), false).await.unwrap();
    let rest = store.entities(here.clone(), Some(entity("planner:10")), 9).await.unwrap();
    let after: Vec<_> = rest.iter().map(Entity::as_str).collect();
    assert_eq!(after, ["planner:it's \"1\" 😀", "planner:é"], "a place stays when its entity goes");
}

/// Limits: 1 to 1,000.
async fn a_page_of_entities_has_a_limit(case: &Case) {
    let codes = [(0, Some("invalid_task")), (1, None), (1000, None), (1001, Some("invalid_task"))];
    for (limit, code) in codes.into_iter().chain([(usize::MAX, Some("invalid_task"))]) {
        let answer = case.store().entities(Name::default(), None, limit).await;
        assert_eq!(answer.err().map(|error| error.code()), code, "limit {limit}");
    }
}
