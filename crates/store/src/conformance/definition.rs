//! Descriptions of workflows: versions that never change.

use serde_json::{Value, json};
use windlass_core::{Definition, Json, Name, NewWorkflow, Rejected, Retention, Source, State, Workflow};

use super::{Case, ad_hoc, definition, definition_of, scenarios, workflow_id};
use crate::Defined;

scenarios![
    the_same_content_is_the_same_version,
    other_content_under_a_version_is_refused,
    versions_are_numbered,
    the_newest_is_what_a_start_without_a_version_follows,
    a_running_workflow_stays_with_its_version,
    namespaces_are_apart,
    what_is_unsound_is_refused_and_nothing_is_written,
    definitions_are_listed,
    a_definition_reads_back_as_it_was_written,
    the_definition_of_one_workflow_is_nobody_elses,
    what_does_not_exist_cannot_be_started,
];

fn name(text: &str) -> Name {
    Name::new("definition", text).unwrap()
}

fn versioned(text: &str, version: Option<&str>, steps: Value) -> Definition {
    let mut whole = json!({ "name": text, "version": version });
    whole["steps"] = steps;
    definition_of(whole)
}

async fn define(case: &Case, definition: Definition) -> (String, bool) {
    let Defined { version, created } = case.store().define(Name::default(), definition).await.unwrap();
    (version, created)
}

fn named(n: u64, text: &str, version: Option<&str>) -> NewWorkflow {
    let source = Source::Named { name: name(text), version: version.map(Into::into) };
    NewWorkflow::new(workflow_id(n), source, Json::default())
}

async fn the_same_content_is_the_same_version(case: &Case) {
    let one = || definition(json!({ "a": {}, "b": { "needs": ["a"] } }));
    assert_eq!(define(case, one()).await, ("1".into(), true));
    assert_eq!(define(case, one()).await, ("1".into(), false));
    case.crash().await;
    assert_eq!(define(case, one()).await, ("1".into(), false), "after a crash too");
    let again = Definition { version: Some("1".into()), ..one() };
    assert_eq!(define(case, again).await, ("1".into(), false), "the version is not part of the content");
    let other = Definition { version: Some("stable".into()), ..one() };
    assert_eq!(define(case, other).await, ("stable".into(), true), "one content may have two versions");
    assert_eq!(define(case, one()).await, ("stable".into(), false), "the newest of those");
}

async fn other_content_under_a_version_is_refused(case: &Case) {
    define(case, versioned("test", Some("v1"), json!({ "a": {} }))).await;
    let before = case.snapshot().await;
    let other = versioned("test", Some("v1"), json!({ "b": {} }));
    let error = case.error(case.store().define(Name::default(), other)).await;
    let conflict = Rejected::DefinitionConflict { name: "test".into(), version: "v1".into() };
    assert_eq!(error.rejected(), Some(&conflict));
    assert_eq!(case.snapshot().await, before);
}

/// The next number is one more than the largest; versions that are no numbers do not matter.
async fn versions_are_numbered(case: &Case) {
    assert_eq!(define(case, versioned("test", Some("draft"), json!({ "a": {} }))).await.0, "draft");
    assert_eq!(define(case, definition(json!({ "b": {} }))).await.0, "1");
    assert_eq!(define(case, versioned("test", Some("7"), json!({ "c": {} }))).await.0, "7");
    assert_eq!(define(case, definition(json!({ "d": {} }))).await.0, "8");
    assert_eq!(define(case, versioned("other", None, json!({ "d": {} }))).await.0, "1");
    // Those of single workflows do not count, though they have the name.
    case.start(1, json!({ "e": {} })).await;
    assert_eq!(define(case, definition(json!({ "f": {} }))).await.0, "9");
    assert_eq!(define(case, definition(json!({ "e": {} }))).await, ("10".into(), true));
}

/// The newest is the one that was made last, whatever it is called.
async fn the_newest_is_what_a_start_without_a_version_follows(case: &Case) {
    define(case, versioned("test", Some("9"), json!({ "a": {} }))).await;
    define(case, versioned("test", Some("2"), json!({ "b": {} }))).await;
    case.begin(named(1, "test", None)).await;
    case.begin(named(2, "test", Some("9"))).await;
    assert_eq!(case.workflow(workflow_id(1)).await.workflow.version, "2");
    assert_eq!(case.workflow(workflow_id(2)).await.workflow.version, "9");
    // The own definition of a single workflow is never the newest.
    case.start(3, json!({ "c": {} })).await;
    case.begin(named(4, "test", None)).await;
    assert_eq!(case.workflow(workflow_id(4)).await.workflow.version, "2");
}

async fn a_running_workflow_stays_with_its_version(case: &Case) {
    define(case, definition(json!({ "a": {}, "b": { "needs": ["a"] } }))).await;
    let id = case.begin(named(1, "test", None)).await.id;
    define(case, definition(json!({ "x": {} }))).await;
    let worker = case.worker("w").await;
    case.complete(&case.claim_one(&worker).await).await;
    case.crash().await;
    assert_eq!(case.claim_one(&worker).await.task.id, id.step(1));
    let record = case.workflow(id).await;
    assert_eq!((record.workflow.version.as_str(), record.blueprint.len()), ("1", 2));
}

async fn namespaces_are_apart(case: &Case) {
    let tenant = Name::namespace("tenant").unwrap();
    define(case, definition(json!({ "a": {} }))).await;
    let theirs = case.store().define(tenant.clone(), definition(json!({ "b": {} }))).await.unwrap();
    assert_eq!(theirs, Defined { version: "1".into(), created: true });
    let found = case.store().definition(tenant.clone(), name("test"), None).await.unwrap().unwrap();
    assert_eq!((found.namespace.clone(), found.blueprint.number("b")), (tenant.clone(), Some(0)));
    assert_eq!(case.store().definitions(tenant.clone(), None).await.unwrap().len(), 1);
    let new = NewWorkflow { namespace: tenant, ..named(1, "test", None) };
    let id = case.begin(new).await.id;
    assert_eq!(&*case.record(id.step(0)).await.task.spec.namespace, "tenant");
    assert!(case.claim(&case.worker("w").await, 9).await.is_empty(), "not of this namespace");
}

async fn what_is_unsound_is_refused_and_nothing_is_written(case: &Case) {
    let before = case.snapshot().await;
    for (steps, code, path) in [
        (json!({ "a": { "needs": ["b"] }, "b": { "needs": ["a"] } }), "cycle", "steps.a.needs"),
        (json!({ "a": { "needs": ["a"] } }), "cycle", "steps.a.needs[0]"),
        (json!({ "a": { "needs": ["nobody"] } }), "invalid_definition", "steps.a.needs[0]"),
        (json!({ "a": { "join": { "at_least": 1 } } }), "invalid_definition", "steps.a.join.at_least"),
        (json!({ "a": { "run": "x", "task": "y" } }), "invalid_definition", "steps.a"),
        (json!({ "input": {} }), "invalid_definition", "steps.input"),
    ] {
        let unsound = definition(steps);
        let error = case.error(case.store().define(Name::default(), unsound.clone())).await;
        let Some(Rejected::Unsound { flaws }) = error.rejected() else { panic!("{error}") };
        assert_eq!((error.code(), flaws[0].path.as_str()), (code, path), "{error}");
        assert_eq!(case.start_refusal(ad_hoc(1, unsound)).await.code(), code);
    }
    assert_eq!(case.snapshot().await, before);
}

/// By name, the newest of each; or all versions of one, oldest first.
async fn definitions_are_listed(case: &Case) {
    define(case, versioned("b", None, json!({ "x": {}, "y": {} }))).await;
    case.pass(1);
    define(case, versioned("a", Some("z"), json!({ "x": {} }))).await;
    case.pass(1);
    define(case, versioned("b", None, json!({}))).await;
    case.start(1, json!({ "x": {} })).await;
    let lines = |lines: Vec<crate::DefinitionLine>| {
        lines
            .into_iter()
            .map(|line| format!("{} {} {}", line.name, line.version, line.steps))
            .collect::<Vec<_>>()
    };
    let store = case.store();
    let all = store.definitions(Name::default(), None).await.unwrap();
    assert!(all[0].created_at < all[1].created_at);
    assert_eq!(lines(all), ["a z 1", "b 2 0"]);
    let versions = store.definitions(Name::default(), Some(name("b"))).await.unwrap();
    assert_eq!(lines(versions), ["b 1 2", "b 2 0"]);
    assert!(store.definitions(Name::default(), Some(name("nobody"))).await.unwrap().is_empty());
    assert!(store.definitions(Name::default(), Some(name("test"))).await.unwrap().is_empty(), "of one alone");
}

async fn a_definition_reads_back_as_it_was_written(case: &Case) {
    let text = r#"{
        "name": "rich", "version": "2026-01", "description": "o'clock \"é\" \\",
        "input": {"type": "object"}, "identity": "strict",
        "defaults": {"retry": {"max_attempts": 5, "backoff": "linear", "initial": "250ms"}, "timeout": "1h30m",
                     "queue": "bulk"},
        "steps": {
            "z": {"run": "echo ${input.x}", "lane": {"key": "door", "limit": 2}},
            "a": {"task": "t", "needs": ["z"], "join": "any", "if": "z.ok",
                  "map": {"over": [1, 2], "max_parallel": 3}},
            "m": {"workflow": {"name": "inner", "version": "4"}, "needs": ["a", "z"],
                  "join": {"at_least": 1}, "priority": -3}
        },
        "on_failure": "fail_fast"
    }"#;
    let written: Definition = serde_json::from_str(text).unwrap();
    define(case, written.clone()).await;
    case.crash().await;
    let read = case.store().definition(Name::default(), name("rich"), None).await.unwrap().unwrap();
    assert_eq!(read.blueprint.definition().content(), written.content());
    assert_eq!((read.version.as_str(), read.name().as_ref()), ("2026-01", "rich"));
    assert_eq!(read.blueprint.number("a"), Some(1), "in the order of the file");
    assert_eq!(case.store().definition(Name::default(), name("rich"), Some("1".into())).await.unwrap(), None);
    assert_eq!(case.store().definition(Name::default(), name("poor"), None).await.unwrap(), None);
}

/// What belongs to one workflow alone is not listed, not found, not started, and goes with it.
async fn the_definition_of_one_workflow_is_nobody_elses(case: &Case) {
    let id = case.start(1, json!({ "a": {} })).await;
    let own = Workflow::own_version(id);
    assert_eq!(case.workflow(id).await.workflow.version, own);
    let store = case.store();
    assert_eq!(store.definition(Name::default(), name("test"), None).await.unwrap(), None);
    assert_eq!(store.definition(Name::default(), name("test"), Some(own.clone())).await.unwrap(), None);
    assert!(store.definitions(Name::default(), None).await.unwrap().is_empty());
    let refusal = case.start_refusal(named(2, "test", Some(&own))).await;
    assert_eq!(refusal.code(), "definition_not_found");
    let mine = versioned("test", Some(&own), json!({ "a": {} }));
    assert_eq!(case.error(store.define(Name::default(), mine)).await.code(), "invalid_definition");

    case.complete(&case.claim_one(&case.worker("w").await).await).await;
    case.pass(10);
    let retention = Retention::default().keep(State::Completed, std::time::Duration::ZERO).unwrap();
    assert_eq!(store.prune(retention.clone(), 10).await.unwrap(), 1);
    assert_eq!(case.start(1, json!({ "b": {} })).await, id, "the id is free again, with other steps");
    assert_eq!(case.workflow(id).await.blueprint.number("b"), Some(0));
}

async fn what_does_not_exist_cannot_be_started(case: &Case) {
    define(case, definition(json!({ "a": {} }))).await;
    let refusal = case.start_refusal(named(1, "nobody", None)).await;
    assert_eq!(refusal, Rejected::UnknownDefinition { name: "nobody".into(), version: None });
    let refusal = case.start_refusal(named(1, "test", Some("2"))).await;
    assert_eq!(refusal, Rejected::UnknownDefinition { name: "test".into(), version: Some("2".into()) });
}
