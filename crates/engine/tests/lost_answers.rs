//! A submit whose answer was lost: nobody knows whether it was made, until the client has looked.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::{Fault, down, lost, planned, unsent, work};
use windlass::{Client, Error, Filter, NewTask, Page, TaskId};

async fn all(client: &Client) -> Vec<TaskId> {
    let page = Page { oldest_first: true, ..Page::default() };
    client.list(Filter::default(), page).await.unwrap().tasks.iter().map(|task| task.id).collect()
}

fn build(client: &Client, key: Option<&str>) -> NewTask {
    let submit = client.submit(&work("a", 0));
    key.map_or_else(|| client.submit(&work("a", 0)), |key| submit.key(key)).build().unwrap()
}

/// Both ways to lose an answer: the call was made, or it never was.
fn ways() -> [(&'static str, Fault); 2] {
    [("made", lost()), ("not made", unsent())]
}

#[tokio::test(start_paused = true)]
async fn one_task_is_there_once() {
    for (how, fault) in ways() {
        let (plan, windlass) = planned();
        let client = windlass.client();
        plan.once("submit", fault.clone());
        let submitted = client.submit(&work("a", 0)).await.unwrap();
        assert!(submitted.created, "{how}");
        assert_eq!(all(&client).await, [submitted.id], "{how}");
        plan.once("submit", fault);
        let keyed = client.submit(&work("b", 0)).key("k").await.unwrap();
        assert!(keyed.created, "{how}");
        assert_eq!(client.find("work", "k").await.unwrap(), Some(keyed.id), "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_there_before_is_not_taken_for_new() {
    for (how, fault) in ways() {
        let (plan, windlass) = planned();
        let client = windlass.client();
        let first = client.submit(&work("a", 0)).key("k").await.unwrap();
        plan.once("submit", fault.clone());
        let again = client.submit(&work("b", 0)).key("k").await.unwrap();
        assert_eq!((again.id, again.created), (first.id, false), "{how}");
        plan.once("submit", fault);
        let refused = client.submit(&work("b", 0)).key("k").reject_duplicate().await;
        assert!(refused.is_err() || !refused.unwrap().created, "{how}");
        assert_eq!(all(&client).await, [first.id], "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_there_as_a_whole_once() {
    for (how, fault) in ways() {
        let (plan, windlass) = planned();
        let client = windlass.client();
        let old = client.submit(&work("a", 0)).key("old").await.unwrap().id;
        let batch = [None, Some("old"), Some("new"), Some("new")].map(|key| build(&client, key));
        let ids = batch.each_ref().map(|task| task.id);
        plan.once("submit", fault.clone());
        let submitted = client.submit_all(batch.to_vec()).await.unwrap();
        let expected = [(ids[0], true), (old, false), (ids[2], true), (ids[2], false)];
        assert_eq!(submitted.iter().map(|one| (one.id, one.created)).collect::<Vec<_>>(), expected, "{how}");
        assert_eq!(all(&client).await, [old, ids[0], ids[2]], "{how}");
        // All keys are there, so nothing of the batch is.
        let again = [Some("old"), Some("new")].map(|key| build(&client, key));
        plan.once("submit", fault);
        let submitted = client.submit_all(again.to_vec()).await.unwrap();
        let expected = [(old, false), (ids[2], false)];
        assert_eq!(submitted.iter().map(|one| (one.id, one.created)).collect::<Vec<_>>(), expected, "{how}");
        assert_eq!(all(&client).await.len(), 3, "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_refused_is_refused_after_all() {
    for (how, fault) in ways() {
        let (plan, windlass) = planned();
        let client = windlass.client();
        let mut batch = vec![build(&client, None), build(&client, None)];
        batch[1].id = batch[0].id;
        plan.once("submit", fault);
        let refused = client.submit_all(batch).await.unwrap_err();
        assert!(matches!(refused, Error::InBatch { index: 1, .. }), "{how}: {refused}");
        assert_eq!(all(&client).await, [], "{how}");
    }
}

/// [`Error::Unavailable`] says that nothing was changed and that the request may be repeated. That is not
/// known here.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_found_out_stays_unknown() {
    for verb in ["task", "find"] {
        for (how, fault) in ways() {
            let (plan, windlass) = planned();
            let client = windlass.client();
            plan.once("submit", fault.clone());
            plan.once(verb, down());
            let submit = client.submit(&work("a", 0)).key("k");
            match submit.await {
                Err(error) => assert!(matches!(error, Error::Unknown(_)), "{how}, {verb} fails: {error}"),
                Ok(submitted) => assert_eq!(all(&client).await, [submitted.id], "{how}, {verb} fails"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_again_leaves_one_task_or_says_that_it_does_not_know() {
    for first in ways() {
        for second in ways() {
            let how = (first.0, second.0);
            let (plan, windlass) = planned();
            let client = windlass.client();
            plan.once("submit", first.1.clone());
            plan.once("submit", second.1);
            let answer = client.submit(&work("a", 0)).await;
            let there = all(&client).await;
            match answer {
                Ok(submitted) => assert_eq!(there, [submitted.id], "{how:?}"),
                Err(error) => {
                    assert!(matches!(error, Error::Unknown(_)) && there.len() <= 1, "{how:?}: {error}");
                }
            }
        }
    }
}
