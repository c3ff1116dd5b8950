//! What a client promises: tasks that are there when it says so, once, and answers about them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::num::NonZeroU32;

use support::{START, Work, at, engine, ms, pass, record, secs, state, words, work, worker};
use windlass::{
    Ageing, Backoff, By, Client, Context, Error, Filter, Jitter, Json, Lane, NewTask, Page, Rejected,
    RetryPolicy, State, TaskError, TaskId, Timestamp, Why, task_id,
};

fn by(actor: &str) -> By {
    By { actor: Some(actor.into()), note: Some("because".into()) }
}

async fn all(client: &Client) -> Vec<TaskId> {
    let page = Page { oldest_first: true, limit: 1_000, after: None };
    client.list(Filter::default(), page).await.unwrap().tasks.iter().map(|task| task.id).collect()
}

fn build(client: &Client, name: &str) -> NewTask {
    client.submit(&work(name, 0)).build().unwrap()
}

fn rejected<T: std::fmt::Debug>(answer: Result<T, Error>) -> Rejected {
    answer.unwrap_err().rejected().cloned().expect("a refusal")
}

#[tokio::test(start_paused = true)]
async fn everything_that_is_asked_for_is_kept() {
    let windlass = engine();
    let client = windlass.client();
    let policy =
        RetryPolicy { backoff: Backoff::Fixed, base: secs(7), cap: secs(70), jitter: Jitter::Percent(5) };
    let ageing = Ageing { per_hour: 2, per_retry: 3 };
    let submitted = client
        .submit(&work("a", 5))
        .queue("mail")
        .priority(-4)
        .ageing(ageing)
        .key("k")
        .lane(Lane::new("lane", 3).unwrap().strict())
        .delay(secs(60))
        .timeout(secs(9))
        .max_attempts(8)
        .retry(policy)
        .tag("one")
        .tag(2)
        .actor("ada")
        .await
        .unwrap();
    assert!(submitted.created);
    assert_eq!(submitted.state, State::Scheduled);
    let kept = record(&windlass, submitted.id).await;
    assert_eq!(kept.payload.as_str(), r#"{"name":"a","takes":5}"#);
    assert_eq!((kept.history.len(), kept.history[0].actor.as_deref()), (1, Some("ada")));
    assert_eq!(kept.task.status.due_at, Some(at(secs(60))));
    let spec = kept.task.spec;
    assert_eq!((&*spec.namespace, &*spec.queue, &*spec.kind), ("default", "mail", "work"));
    assert_eq!((spec.priority, spec.ageing, spec.key.as_deref()), (-4, ageing, Some("k")));
    assert_eq!(spec.lane, Some(Lane::new("lane", 3).unwrap().strict()));
    assert_eq!((spec.timeout, spec.max_attempts), (Some(secs(9)), NonZeroU32::new(8)));
    assert_eq!((spec.retry, spec.created_at), (policy, START));
    assert_eq!(spec.tags, ["one", "2"]);

    let unlimited =
        client.submit_json("other", "[1,  2]").max_attempts(None).run_at(at(secs(5))).await.unwrap();
    let kept = record(&windlass, unlimited.id).await;
    assert_eq!((kept.payload.as_str(), kept.task.spec.max_attempts), ("[1,  2]", None));
    assert_eq!(kept.task.status.due_at, Some(at(secs(5))));
    let past = client.submit(&work("b", 0)).run_at(Timestamp::MIN).await.unwrap();
    assert_eq!(past.state, State::Pending);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_accepted_is_told_and_nothing_is_submitted() {
    let windlass = engine();
    let client = windlass.client();
    let plain = || client.submit(&work("a", 0));
    let policy = RetryPolicy { base: secs(9), cap: secs(1), ..RetryPolicy::default() };
    for (submit, field) in [
        (client.submit_json("a b", "{}"), "kind"),
        (client.submit_json("", "{}"), "kind"),
        (client.submit_json("work", "{"), "payload"),
        (plain().queue("a b"), "queue"),
        (plain().entity("planner"), "entity"),
        (plain().key(""), "idempotency key"),
        (plain().tag(""), "tag"),
        (plain().timeout(secs(0)), "timeout"),
        (plain().max_attempts(2_000_000), "max_attempts"),
        (plain().max_attempts(0), "max_attempts"),
        (plain().retry(policy), "retry base"),
        // The first mistake is told, whatever follows.
        (plain().queue("a b").entity("x").queue("fine"), "queue"),
    ] {
        let Rejected::Invalid(invalid) = rejected(submit.await) else { panic!("{field}") };
        assert_eq!(invalid.field, field, "{invalid}");
        assert!(
            field != "max_attempts" || invalid.expected == "1 to 1000000, or None for no limit",
            "{invalid}"
        );
    }
    assert_eq!(all(&client).await, []);
    assert!(client.namespace("a b").is_err());
    assert!(client.find("a b", "key").await.is_err());
    assert!(client.pause("a b", true).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_submitted_as_a_whole_or_not_at_all() {
    let client = engine().client();
    let mut tasks: Vec<_> = ["a", "b", "c"].iter().map(|name| build(&client, name)).collect();
    tasks[2].id = tasks[0].id;
    let refused = client.submit_all(tasks.clone()).await.unwrap_err();
    assert!(
        matches!(refused, Error::InBatch { index: 2, rejected: Rejected::IdConflict { .. } }),
        "{refused}"
    );
    assert!(refused.to_string().contains("task 3 of the batch"), "{refused}");
    tasks[1].tags = vec![String::new()];
    let refused = client.submit_all(tasks.clone()).await.unwrap_err();
    assert!(matches!(refused, Error::InBatch { index: 1, .. }), "{refused}");
    assert_eq!(all(&client).await, []);

    tasks.truncate(1);
    tasks.push(build(&client, "d"));
    let submitted = client.submit_all(tasks.clone()).await.unwrap();
    let ids: Vec<_> = submitted.iter().map(|one| one.id).collect();
    assert_eq!(ids, [tasks[0].id, tasks[1].id]);
    assert!(submitted.iter().all(|one| one.created));
    assert_eq!(all(&client).await, ids);
    assert_eq!(client.submit_all(Vec::new()).await.unwrap(), []);
    let many = (0..1_001).map(|_| build(&client, "x")).collect();
    let refused = client.submit_all(many).await.unwrap_err();
    assert!(refused.to_string().contains("at most 1000"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_key_is_submitted_once() {
    let client = engine().client();
    let first = client.submit(&work("a", 0)).key("k").await.unwrap();
    let again = client.submit(&work("another", 9)).key("k").await.unwrap();
    assert_eq!((again.id, again.created), (first.id, false));
    assert_eq!(client.find("work", "k").await.unwrap(), Some(first.id));
    assert_eq!(client.find("work", "l").await.unwrap(), None);
    assert_eq!(client.find("other", "k").await.unwrap(), None, "kinds have their own keys");
    let refused = rejected(client.submit(&work("a", 0)).key("k").reject_duplicate().await);
    assert_eq!(refused, Rejected::KeyConflict { key: "k".into(), existing: first.id });
    let mut batch = vec![build(&client, "x"), build(&client, "y"), build(&client, "z")];
    batch[1].key = Some("k".into());
    batch[2].key = batch[1].key.clone();
    let created: Vec<_> = client.submit_all(batch).await.unwrap().iter().map(|one| one.created).collect();
    assert_eq!(created, [true, false, false]);

    client.cancel(first.id, By::default()).await.unwrap();
    assert!(!client.submit(&work("a", 0)).key("k").await.unwrap().created, "final tasks keep their keys");
    client.delete(first.id).await.unwrap();
    assert!(client.submit(&work("a", 0)).key("k").await.unwrap().created, "deleting frees it");
}

#[tokio::test(start_paused = true)]
async fn tasks_are_found_again() {
    let windlass = engine();
    let client = windlass.client();
    let mut ids = Vec::new();
    for number in 0..7 {
        ids.push(client.submit(&work("a", number)).tag(number % 2).await.unwrap().id);
    }
    assert_eq!(client.get(task_id()).await.unwrap(), None);
    assert_eq!(client.get(ids[0]).await.unwrap().unwrap().task.id, ids[0]);
    let odd = Filter { tag: Some("1".into()), ..Filter::default() };
    let (mut page, mut seen) = (Page { limit: 2, after: None, oldest_first: true }, Vec::new());
    loop {
        let listing = client.list(odd.clone(), page).await.unwrap();
        assert!(listing.tasks.len() <= 2);
        seen.extend(listing.tasks.iter().map(|task| task.id));
        page.after = listing.next;
        if page.after.is_none() {
            break;
        }
    }
    assert_eq!(seen, [ids[1], ids[3], ids[5]]);
    let newest = client.list(Filter::default(), Page::default()).await.unwrap();
    assert_eq!(newest.tasks[0].id, ids[6]);
}

#[tokio::test(start_paused = true)]
async fn operators_intervene() {
    let windlass = engine();
    let client = windlass.client();
    let id = client.submit(&work("a", 0)).await.unwrap().id;
    let cancelled = client.cancel(id, by("ada")).await.unwrap();
    assert_eq!((cancelled.state, cancelled.changed), (State::Cancelled, true));
    assert!(!client.cancel(id, by("bob")).await.unwrap().changed);
    assert_eq!(client.retry(id, false, by("eve")).await.unwrap().state, State::Pending);
    let settled = client.resolve(id, Some(Json::result("42").unwrap()), by("zoe")).await.unwrap();
    assert_eq!(settled.state, State::ResolvedManually);
    let record = record(&windlass, id).await;
    assert_eq!(words(&record), ["pending", "cancelled", "pending", "resolved_manually"]);
    let actors: Vec<_> = record.history.iter().filter_map(|entry| entry.actor.as_deref()).collect();
    assert_eq!(actors, ["ada", "eve", "zoe"]);
    assert_eq!(record.history[1].note.as_deref(), Some("because"));
    assert!(matches!(rejected(client.cancel(id, by("ada")).await), Rejected::Settled { .. }));

    let late = client.submit(&work("b", 0)).delay(secs(60)).await.unwrap().id;
    assert!(matches!(rejected(client.delete(late).await), Rejected::NotFinal { .. }));
    assert_eq!(client.retry(late, false, by("ada")).await.unwrap().state, State::Pending);
    client.delete(id).await.unwrap();
    assert!(matches!(rejected(client.delete(id).await), Rejected::NotFound { .. }));
    assert!(matches!(rejected(client.retry(id, true, by("ada")).await), Rejected::NotFound { .. }));
}

#[tokio::test(start_paused = true)]
async fn operators_are_told_what_is_and_why() {
    let windlass = engine();
    let client = windlass.client();
    let why = async |id| client.explain(id).await.unwrap().unwrap().why;
    let plain = client.submit(&work("a", 0)).await.unwrap().id;
    assert_eq!(why(plain).await, Why::NoWorker);
    assert_eq!(client.explain(task_id()).await.unwrap(), None);
    let _worker = worker(&windlass)
        .handle(|_: Context, _: Work| std::future::pending::<Result<(), TaskError>>())
        .queues(["default", "calm"])
        .start()
        .await
        .unwrap();
    pass(ms(300)).await;
    assert_eq!(why(plain).await, Why::Running);
    client.pause("calm", true).await.unwrap();
    let paused = client.submit(&work("b", 0)).queue("calm").await.unwrap().id;
    pass(secs(1)).await;
    assert_eq!(why(paused).await, Why::QueuePaused);
    client.pause("calm", false).await.unwrap();
    pass(ms(300)).await;
    assert_eq!(why(paused).await, Why::Running);
    let late = client.submit(&work("c", 0)).delay(secs(60)).await.unwrap().id;
    assert_eq!(why(late).await, Why::NotDue);

    let stats = client.stats().await.unwrap();
    let mut stats: Vec<_> = stats.iter().map(|one| (&*one.queue, one.state.word(), one.tasks)).collect();
    stats.sort_unstable();
    assert_eq!(stats, [("calm", "running", 1), ("default", "running", 1), ("default", "scheduled", 1)]);
    let workers = client.workers().await.unwrap();
    assert_eq!((workers.len(), workers[0].pool_size), (1, 10));
}

#[tokio::test(start_paused = true)]
async fn entities_are_registered_and_asked_for() {
    let client = engine().client();
    let unknown = client.submit(&work("a", 0)).entity("planner:1").require_entity();
    assert!(matches!(rejected(unknown.await), Rejected::UnknownEntity { .. }));
    assert!(client.register_entity("planner:1").await.unwrap());
    assert!(!client.register_entity("planner:1").await.unwrap());
    assert!(client.submit(&work("a", 0)).entity("planner:1").require_entity().await.unwrap().created);
    assert!(client.register_entity("planner:2").await.unwrap());
    let known = client.entities(None, 10).await.unwrap();
    assert_eq!(known.iter().map(|one| one.as_str()).collect::<Vec<_>>(), ["planner:1", "planner:2"]);
    assert_eq!(client.entities(Some(&known[0]), 10).await.unwrap(), [known[1].clone()]);
    assert!(client.forget_entity("planner:1").await.unwrap());
    assert!(!client.forget_entity("planner:1").await.unwrap());
    assert!(client.register_entity("planner").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn namespaces_are_apart() {
    let windlass = engine();
    let (here, there) = (windlass.client(), windlass.client().namespace("there").unwrap());
    let first = here.submit(&work("a", 0)).key("k").entity("planner:1").await.unwrap();
    let second = there.submit(&work("a", 0)).key("k").entity("planner:1").await.unwrap();
    assert!(first.created && second.created);
    assert_eq!(there.find("work", "k").await.unwrap(), Some(second.id));
    assert!(there.register_entity("planner:1").await.unwrap());
    assert_eq!(here.entities(None, 10).await.unwrap(), []);
    there.pause("default", true).await.unwrap();
    there.schedule("s", "@daily", there.submit(&work("a", 0))).await.unwrap();
    assert_eq!(here.schedules().await.unwrap(), []);
    let worker = worker(&windlass).handle(async |_: Context, _: Work| Ok(())).start().await.unwrap();
    here.wait(first.id).await.unwrap();
    pass(secs(60)).await;
    assert_eq!(state(&windlass, second.id).await, State::Pending, "another's worker does not take it");
    worker.stop().await.unwrap();
}
