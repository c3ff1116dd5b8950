//! What programs can see of the steps of a workflow: why one is not running, what comes before it, and the
//! picture.
#![allow(clippy::unwrap_used, clippy::panic)]

use windlass::draw::{Drawing, Shape};
use windlass::{
    By, Client, Definition, Join, Rejected, State, Steering, StepWaits, Why, Windlass, WorkflowId, flow,
};

const TEXT: &str = r#"
name: seen
steps:
  first: { task: x }
  other: { run: ./other.sh }
  each: { task: x, needs: first, map: { over: [1] } }
  child: { workflow: elsewhere, needs: first, if: "true" }
  late: { task: x, needs: [first, other], join: all_done }
  last: { task: x, needs: [late, each], join: { at_least: 1 } }
"#;

fn definition() -> Definition {
    flow::check(TEXT).unwrap().0.definition().clone()
}

async fn started() -> (Client, WorkflowId) {
    let client = Windlass::open("memory:").await.unwrap().client();
    let started = client.start_ad_hoc(definition()).await.unwrap();
    (client, started.id)
}

fn nobody() -> By {
    By { actor: None, note: None }
}

#[tokio::test]
async fn parents_count_as_their_join_says() {
    let (client, id) = started().await;
    let late = client.step(id, "late").await.unwrap();
    let first = client.step(id, "first").await.unwrap();
    let before = client.explain_step(late).await.unwrap().unwrap();
    assert_eq!((before.reason(), &*before.step), ("waiting_for_parents", "late"));
    assert_eq!((before.explanation.why, before.explanation.blockers.len()), (Why::WaitingForParents, 2));
    client.cancel(first, nobody()).await.unwrap();
    let after = client.explain_step(late).await.unwrap().unwrap();
    let StepWaits::Parents { join: Join::AllDone, of: 2, missing } = &after.waits else {
        panic!("{:?}", after.waits);
    };
    assert_eq!((missing.total, missing.more(), &*missing.first[0].name), (1, 0, "other"), "it is over");
    let inspection = client.inspect(id).await.unwrap().unwrap();
    let unmet: Vec<_> = inspection.unmet(4).map(|(name, state)| (&**name, state)).collect();
    assert_eq!(unmet, [("other", State::Pending)]);
    let over = client.explain_step(client.step(id, "each").await.unwrap()).await.unwrap().unwrap();
    assert_eq!((over.reason(), over.facts.task.status.state), ("final", State::Skipped));
    assert!(over.note.is_some(), "why it was skipped");
}

#[tokio::test]
async fn a_pause_is_seen_and_what_is_no_step_is_refused() {
    let (client, id) = started().await;
    client.steer(id, Steering::Pause, nobody()).await.unwrap();
    let first = client.explain_step(client.step(id, "first").await.unwrap()).await.unwrap().unwrap();
    assert_eq!((first.waits.clone(), first.reason()), (StepWaits::Resume, "workflow_paused"));
    let lone = client.submit_json("x", "1").await.unwrap().id;
    let refused = client.explain_step(lone).await.unwrap_err();
    assert!(matches!(refused.rejected(), Some(Rejected::NotStep { .. })), "{refused}");
    assert_eq!(client.explain_step(windlass::task_id()).await.unwrap(), None);
}

#[tokio::test]
async fn ancestors_come_with_their_results() {
    let (client, id) = started().await;
    let first = client.step(id, "first").await.unwrap();
    client.resolve(first, Some(windlass::Json::result("7").unwrap()), nobody()).await.unwrap();
    let all = client.ancestors(id, "last").await.unwrap();
    let mut seen: Vec<_> = all.iter().map(|it| (it.distance, &*it.name, it.state)).collect();
    assert!(seen.is_sorted_by_key(|(distance, ..)| *distance), "nearest first");
    seen.sort_unstable();
    let expected = [
        (1, "each", State::Pending),
        (1, "late", State::Waiting),
        (2, "first", State::ResolvedManually),
        (2, "other", State::Pending),
    ];
    assert_eq!(seen, expected);
    let result = all.iter().find(|it| &*it.name == "first").and_then(|it| it.result.clone());
    assert_eq!(result.unwrap().as_str(), "7");
    assert!(client.ancestors(id, "nope").await.unwrap_err().to_string().contains("first"));
}

#[tokio::test]
async fn every_step_has_a_box() {
    let (client, id) = started().await;
    let drawing = client.inspect(id).await.unwrap().unwrap().drawing();
    let shapes: Vec<_> = drawing.nodes.iter().map(|node| node.shape).collect();
    assert_eq!(shapes, [Shape::Task, Shape::Program, Shape::Map, Shape::Workflow, Shape::Task, Shape::Task]);
    let (child, last) = (&drawing.nodes[3], &drawing.nodes[5]);
    assert_eq!((child.label.as_deref(), child.is_conditional), (Some("elsewhere"), true));
    assert_eq!((last.join.as_deref(), last.state), (Some("at least 1"), Some(State::Waiting)));
    let blueprint = flow::check(TEXT).unwrap().0.into_blueprint();
    let plain = Drawing::of(&blueprint);
    assert_eq!(plain.title, "seen");
    assert!(plain.nodes.iter().all(|node| node.state.is_none()));
    assert_eq!(plain.nodes[5].parents.len(), 2);
}
