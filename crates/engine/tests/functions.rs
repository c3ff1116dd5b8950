//! What can be asked about workflows: readiness, graph, state, analytics, health, discovery. The same on
//! every store.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, clippy::float_cmp, clippy::print_stdout)]

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass::{
    Activity, BlockingReason, By, Claim, Claimed, Client, Command, Definition, ExecutionStatus, Json,
    ManualClock, MemoryStore, Name, NewTask, NewWorker, Outcome, Patience, Readiness, Rejected, Steering,
    StepBackoff, StepState, TaskId, Timestamp, Token, Windlass, WorkerId, WorkflowId, WorkflowState, limits,
};
use windlass_testbed::postgres::Server;

/// A store, with somebody who claims and reports by hand.
struct Hand {
    windlass: Windlass,
    client: Client,
    worker: WorkerId,
}

impl Hand {
    async fn on(address: &str) -> Self {
        Self::of(Windlass::open(address).await.unwrap()).await
    }

    async fn of(windlass: Windlass) -> Self {
        let worker = WorkerId::new("hand").unwrap();
        windlass.store().register(NewWorker::new(worker.clone())).await.unwrap();
        Self { client: windlass.client(), windlass, worker }
    }

    async fn start(&self, steps: Value) -> WorkflowId {
        let definition: Definition =
            serde_json::from_value(json!({ "name": "flow", "steps": steps })).unwrap();
        self.client.start_ad_hoc(definition).await.unwrap().id
    }

    async fn claim(&self, limit: usize) -> Vec<Claimed> {
        let claim = Claim {
            worker: self.worker.clone(),
            namespace: Name::default(),
            queues: vec![Name::default()],
            kinds: vec![Name::kind("work").unwrap()],
            limit,
        };
        self.windlass.store().claim(claim).await.unwrap()
    }

    async fn report(&self, held: &Claimed, outcome: Outcome) {
        let token = Token { task: held.task.id, lease: held.task.status.lease, worker: self.worker.clone() };
        let finish = Command::Finish { token, started_at: None, outcome };
        self.windlass.store().apply(vec![finish]).await.unwrap().remove(0).unwrap();
    }

    /// Claims one and reports.
    async fn work(&self, outcome: Outcome) -> TaskId {
        let held = self.claim(1).await.remove(0);
        self.report(&held, outcome).await;
        held.task.id
    }

    async fn status(&self, id: WorkflowId) -> Vec<Readiness> {
        self.client.functions().readiness().status(id, None).await.unwrap()
    }
}

fn completed() -> Outcome {
    Outcome::Completed { result: Json::result("1").unwrap() }
}

fn failed(retryable: bool, retry_after: Option<Duration>) -> Outcome {
    Outcome::Failed { error: "no".into(), retryable, retry_after }
}

/// Runs a test on each store.
async fn on_each(test: impl AsyncFn(Hand)) {
    let (server, directory) = (Server::start().unwrap(), tempfile::tempdir().unwrap());
    let file = format!("sqlite:{}", directory.path().join("w.db").display());
    for address in ["memory:", &file, &server.url()] {
        println!("on {address}");
        test(Hand::on(address).await).await;
    }
}

/// Linear, diamond, tree and mixed: what is satisfied, what is ready, level by level.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_follows_the_graph() {
    on_each(async |hand| {
        for (steps, levels) in [
            (json!({ "a": w(&[]), "b": w(&["a"]), "c": w(&["b"]) }), [0, 1, 2, 0, 0]),
            (json!({ "a": w(&[]), "b": w(&["a"]), "c": w(&["a"]), "d": w(&["b", "c"]) }), [0, 1, 1, 2, 0]),
            (
                json!({ "a": w(&[]), "b": w(&["a"]), "c": w(&["a"]), "d": w(&["b"]), "e": w(&["b"]) }),
                [0, 1, 1, 2, 2],
            ),
            (
                json!({ "a": w(&[]), "b": w(&[]), "c": w(&["a", "b"]), "d": w(&["a"]), "e": w(&["c", "d"]) }),
                [0, 0, 1, 1, 2],
            ),
        ] {
            let count = steps.as_object().unwrap().len();
            let id = hand.start(steps).await;
            let graph = hand.client.functions().graph();
            for (name, level) in graph.levels(id).await.unwrap() {
                let at = usize::from(name.as_bytes()[0] - b'a');
                assert_eq!(level, levels[at], "{name}");
                assert_eq!(graph.depth(id.step(u32::try_from(at).unwrap())).await.unwrap(), level);
            }
            for level in 0..=*levels[..count].iter().max().unwrap() {
                let rows = hand.status(id).await;
                assert_eq!(rows.len(), count);
                for (row, its) in rows.iter().zip(levels) {
                    let reason = match its.cmp(&level) {
                        std::cmp::Ordering::Less => Some(BlockingReason::InvalidState),
                        std::cmp::Ordering::Equal => None,
                        std::cmp::Ordering::Greater => Some(BlockingReason::DependenciesNotSatisfied),
                    };
                    assert_eq!(
                        (row.dependencies_satisfied, row.blocking_reason),
                        (its <= level, reason),
                        "{row:?}"
                    );
                    assert_eq!(row.ready_for_execution, its == level, "{row:?}");
                    assert_eq!(row.completed_parents == row.total_parents, its <= level, "{row:?}");
                    assert!(row.retry_eligible && row.last_failure_at.is_none(), "{row:?}");
                }
                let ready = hand.client.functions().readiness().ready_steps(id).await.unwrap();
                let held = hand.claim(10).await;
                assert_eq!(ready.len(), held.len());
                for one in held {
                    hand.report(&one, completed()).await;
                }
            }
            assert_eq!(hand.client.functions().state().current(id).await.unwrap(), WorkflowState::Complete);
            assert!(hand.client.functions().state().finalize(id).await.unwrap());
        }
    })
    .await;
}

fn w(needs: &[&str]) -> Value {
    json!({ "task": "work", "needs": needs })
}

/// 2.6, 2.10: what others know steps by, and the formulas that they reckon with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_find_their_names_and_formulas() {
    on_each(async |hand| {
        let definition = json!({ "name": "flow", "steps": { "a": w(&[]), "b": w(&["a"]) } });
        let definition: Definition = serde_json::from_value(definition).unwrap();
        let version = hand.client.define(definition).await.unwrap().version;
        let mut named = Vec::new();
        for _ in 0..2 {
            let id = hand.client.start("flow").await.unwrap().id;
            let workflow = hand.client.workflow(id).await.unwrap().unwrap().workflow;
            assert_eq!(workflow.version, version);
            let rows = hand.status(id).await;
            assert_eq!(rows[1].named_step, workflow.named_step("b"));
            let readiness = hand.client.functions().readiness();
            assert_eq!(readiness.status(id, Some(&[id.step(1)])).await.unwrap(), rows[1..]);
            named.push(rows.iter().map(|row| row.named_step).collect::<Vec<_>>());
        }
        assert!(named[0] == named[1] && named[0][0] != named[0][1], "{named:?}");
        let own = hand.start(json!({ "a": w(&[]) })).await;
        assert_ne!(hand.status(own).await[0].named_step, named[0][0], "a definition of its own");
        let readiness = hand.client.functions().readiness();
        let failed_at = Some(hand.windlass.store().now().await.unwrap());
        let next = readiness.next_retry_time(StepBackoff::default(), None, None, failed_at, Some(5));
        assert_eq!(next, failed_at.map(|at| at.plus(Duration::from_secs(32))));
        assert_eq!(readiness.backoff_delay(5, Duration::from_secs(1)), Duration::from_secs(32));
    })
    .await;
}

/// 1 and 3 attempts; a failure for good on the first run; a delay that the handler asked for. 0 is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_have_boundaries() {
    on_each(async |hand| {
        let step = |attempts: u32| json!({ "a": { "task": "work", "retry": { "max_attempts": attempts, "initial": "1h", "max": "1h" } } });
        let zero: Definition = serde_json::from_value(json!({ "name": "flow", "steps": step(0) })).unwrap();
        assert!(hand.client.start_ad_hoc(zero).await.is_err());
        let one = hand.start(step(1)).await;
        hand.work(failed(true, None)).await;
        let row = hand.status(one).await.remove(0);
        assert_eq!((row.state, row.attempts, row.max_attempts), (StepState::Error, 1, Some(1)));
        assert!(!row.retry_eligible && row.last_failure_at.is_some() && row.next_retry_at.is_none());
        let three = hand.start(step(3)).await;
        hand.work(failed(true, None)).await;
        let row = hand.status(three).await.remove(0);
        assert_eq!((row.state, row.attempts), (StepState::WaitingForRetry, 1));
        assert_eq!(row.blocking_reason, Some(BlockingReason::BackoffNotElapsed));
        assert!(row.retry_eligible && !row.ready_for_execution);
        assert_eq!(row.backoff, Some(Duration::from_secs(3600)));
        assert_eq!(row.next_retry_at.unwrap().since(row.last_failure_at.unwrap()), Duration::from_secs(3600));
        // An operator does not wait. What the row does not tell any more, the history does.
        hand.client.retry(three.step(0), false, By::default()).await.unwrap();
        let again = hand.status(three).await.remove(0);
        assert_eq!((again.state, again.last_failure_at), (StepState::Pending, row.last_failure_at));
        assert!(again.ready_for_execution && again.backoff.is_none());
        hand.work(failed(true, Some(Duration::from_secs(7)))).await;
        let row = hand.status(three).await.remove(0);
        assert_eq!((row.attempts, row.backoff), (2, Some(Duration::from_secs(7))));
        // Nor does one who says so in the words of document 002.
        let readiness = hand.client.functions().readiness();
        let day = Duration::from_secs(24 * 3600);
        assert!(readiness.set_backoff(three.step(0), day).await.unwrap());
        let later = hand.status(three).await.remove(0);
        let wait = later.next_retry_at.unwrap().since(row.last_failure_at.unwrap());
        assert!(wait >= day && later.backoff == Some(wait), "{later:?}");
        assert_eq!((later.last_failure_at, later.attempts), (row.last_failure_at, 2));
        assert!(readiness.set_backoff(three.step(0), Duration::ZERO).await.unwrap());
        assert!(hand.status(three).await.remove(0).ready_for_execution, "its moment has come");
        assert!(!readiness.set_backoff(one.step(0), day).await.unwrap(), "it has failed for good");
        assert!(!readiness.set_backoff(three.step(9), day).await.unwrap(), "there is no such step");
        let refused = hand.client.postpone(one.step(0), day).await.unwrap_err();
        assert!(matches!(refused.rejected(), Some(Rejected::NotRetrying { .. })), "{refused}");
        let never = hand.start(step(3)).await;
        hand.work(failed(false, None)).await;
        let row = hand.status(never).await.remove(0);
        assert_eq!((row.state, row.attempts, row.retry_eligible), (StepState::Error, 1, false));
        assert_eq!(row.blocking_reason, Some(BlockingReason::RetryNotEligible));
        let (_, context) = hand.client.functions().discovery().context(never).await.unwrap();
        assert_eq!(context.status, ExecutionStatus::BlockedByFailures);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workflows_are_moved_by_compare_and_swap() {
    use WorkflowState::{Complete, EnqueuingSteps, EvaluatingResults, StepsInProcess};
    on_each(async |hand| {
        let id = hand.start(json!({ "a": w(&[]) })).await;
        let state = hand.client.functions().state();
        let go =
            async |from, to, owner| state.transition(id, from, to, owner, Some("by hand")).await.unwrap();
        assert!(!go(EvaluatingResults, EnqueuingSteps, "one").await, "it is not there");
        assert!(!go(StepsInProcess, EnqueuingSteps, "one").await, "there is no such arrow");
        assert!(go(StepsInProcess, EvaluatingResults, "one").await);
        assert!(!go(EvaluatingResults, EnqueuingSteps, "two").await, "it belongs to another");
        assert!(!go(EvaluatingResults, Complete, "one").await, "its steps are not");
        assert!(go(EvaluatingResults, EnqueuingSteps, "one").await);
        assert!(go(EnqueuingSteps, StepsInProcess, "one").await);
        assert!(!state.finalize(id).await.unwrap());
        hand.work(completed()).await;
        assert!(state.finalize(id).await.unwrap() && state.finalize(id).await.unwrap());
        let unknown = WorkflowId::of(windlass::task_id());
        let error = state.current(unknown).await.unwrap_err();
        assert!(matches!(error.rejected(), Some(Rejected::UnknownWorkflow { .. })), "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cycles_are_found_before_they_are_made() {
    on_each(async |hand| {
        let id = hand.start(json!({ "a": w(&[]), "b": w(&["a"]), "c": w(&["b"]) })).await;
        let graph = hand.client.functions().graph();
        for (from, to, is) in [(0, 2, false), (2, 0, true), (1, 1, true), (0, 1, false), (1, 0, true)] {
            assert_eq!(
                graph.would_be_a_cycle(id.step(from), id.step(to)).await.unwrap(),
                is,
                "{from} to {to}"
            );
        }
        // No edge leads to another workflow, or to what is not there.
        let other = hand.start(json!({ "a": w(&[]), "b": w(&["a"]), "c": w(&["b"]) })).await;
        let (whole, item) = (TaskId::from_bytes(*id.as_bytes()), *id.items(2).start());
        for (from, to) in [
            (id.step(2), other.step(0)),
            (other.step(2), id.step(0)),
            (id.step(1), other.step(1)),
            (id.step(9), id.step(9)),
            (id.step(9), id.step(0)),
            (id.step(2), id.step(9)),
            (whole, whole),
            (item, id.step(0)),
            (windlass::task_id(), id.step(0)),
        ] {
            assert!(!graph.would_be_a_cycle(from, to).await.unwrap(), "{from} to {to}");
        }
        let refused = graph.depth(whole).await.unwrap_err();
        assert!(matches!(refused.rejected(), Some(Rejected::NotFound { .. })), "{refused}");
        hand.client.steer(other, Steering::Cancel, By::default()).await.unwrap();
        hand.work(completed()).await;
        let before = graph.transitive_dependencies(id, "c").await.unwrap();
        let told: Vec<_> =
            before.iter().map(|one| (&*one.name, one.distance, one.result.is_some())).collect();
        assert_eq!(told, [("b", 1, false), ("a", 2, true)]);
        hand.client.steer(id, Steering::Cancel, By::default()).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_is_counted() {
    on_each(async |hand| {
        let functions = hand.client.functions();
        let health = functions.health().counts(None).await.unwrap();
        assert_eq!((health.total_workflows(), health.score(), health.is_under_heavy_load()), (0, 1.0, false));
        let metrics = functions.analytics().metrics(None, None).await.unwrap();
        assert_eq!(
            (metrics.active_workflows, metrics.completion_rate(), metrics.average_step_seconds()),
            (0, 0.0, 0.0)
        );
        let first = hand.start(json!({ "a": w(&[]), "b": w(&["a"]) })).await;
        let second = hand.start(json!({ "a": w(&[]) })).await;
        let ready = functions.discovery().ready_workflows(None, None, 5).await.unwrap();
        assert_eq!(
            ready.iter().map(|one| (one.workflow.id, one.ready)).collect::<Vec<_>>(),
            [(first, 1), (second, 1)]
        );
        assert_eq!(functions.discovery().ready_info(second).await.unwrap(), ready[1]);
        let held = hand.claim(2).await;
        let health = functions.health().counts(None).await.unwrap();
        assert_eq!((health.steps(StepState::Enqueued), health.steps(StepState::Pending)), (2, 1));
        hand.report(&held[0], completed()).await;
        hand.report(&held[1], failed(false, None)).await;
        hand.client.steer(second, Steering::GiveUp, By::default()).await.unwrap();
        hand.work(completed()).await;
        let health = functions.health().counts(None).await.unwrap();
        assert_eq!((health.total_workflows(), health.total_steps(), health.active_workflows()), (2, 3, 0));
        assert_eq!(
            (health.workflows(WorkflowState::Complete), health.workflows(WorkflowState::Error)),
            (1, 1)
        );
        assert_eq!((health.steps(StepState::Complete), health.steps(StepState::Error)), (2, 1));
        assert!((0.4..0.61).contains(&health.score()), "half of them: {}", health.score());
        assert!(health.is_under_heavy_load(), "half of them failed");
        let metrics = functions.analytics().metrics(None, None).await.unwrap();
        let activity = metrics.activity;
        assert_eq!((activity.started, activity.completed, activity.failed, activity.steps), (2, 1, 1, 2));
        assert_eq!((metrics.completion_rate(), metrics.error_rate()), (50.0, 50.0));
        assert_eq!((metrics.namespaces, metrics.definitions, metrics.active_workflows), (1, 1, 0));
        let tenant = Name::new("namespace", "tenant").unwrap();
        let one = json!({ "name": "flow", "steps": { "a": w(&[]) } });
        let client = hand.client.clone().namespace(&tenant).unwrap();
        client.start_ad_hoc(serde_json::from_value(one).unwrap()).await.unwrap();
        let metrics = functions.analytics().metrics(Some(&tenant), None).await.unwrap();
        let expected = Activity { started: 1, ..Activity::default() };
        assert_eq!((metrics.activity, metrics.active_workflows, metrics.namespaces), (expected, 1, 1));
        let health = functions.health().counts(Some(&tenant)).await.unwrap();
        assert_eq!((health.total_workflows(), health.total_steps(), health.score()), (1, 1, 0.5));
        let before = functions.analytics().metrics(Some(&Name::default()), None).await.unwrap();
        assert_eq!((before.activity, before.namespaces, before.active_workflows), (activity, 1, 0));
        let all = functions.analytics().metrics(None, None).await.unwrap();
        assert_eq!((all.activity.started, all.namespaces, all.active_workflows), (3, 2, 1));
    })
    .await;
}

/// 2.14: what handlers of later steps may read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_are_those_of_all_steps_before() {
    on_each(async |hand| {
        let id = hand
            .start(json!({ "a": w(&[]), "b": w(&["a"]), "c": w(&["b"]), "d": w(&[]), "e": { "task": "work", "needs": ["c", "d"], "join": "any" } }))
            .await;
        let graph = hand.client.functions().graph();
        let results = async |step| {
            let found = graph.results(id.step(step)).await.unwrap();
            found.iter().map(|(name, result)| format!("{name} {}", result.as_str())).collect::<Vec<_>>()
        };
        assert!(results(0).await.is_empty() && results(4).await.is_empty(), "nothing is done");
        let held = hand.claim(10).await;
        for one in &held {
            match one.task.id == id.step(0) {
                true => hand.report(one, completed()).await,
                false => hand.report(one, failed(false, None)).await,
            }
        }
        assert_eq!(results(1).await, ["a 1"]);
        let by_hand = Some(Json::result("2").unwrap());
        hand.client.resolve(id.step(1), by_hand, By::default()).await.unwrap();
        assert_eq!(results(2).await, ["a 1", "b 2"], "settled by hand is done, too");
        assert_eq!(results(4).await, ["a 1", "b 2"], "however far, and what has failed has returned nothing");
        for unknown in [id.step(9), TaskId::from_bytes(*id.as_bytes())] {
            let refused = graph.results(unknown).await.unwrap_err();
            assert!(matches!(refused.rejected(), Some(Rejected::NotFound { .. })), "{refused}");
        }
        hand.client.steer(id, Steering::Cancel, By::default()).await.unwrap();
    })
    .await;
}

/// 2.6: by workflow and step, each once, and nothing about what is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_are_asked_about_at_once() {
    on_each(async |hand| {
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(hand.start(json!({ "a": w(&[]), "b": w(&["a"]) })).await);
        }
        hand.work(completed()).await;
        let mut expected = Vec::new();
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        for id in &sorted {
            expected.extend(hand.status(*id).await);
        }
        let unknown = WorkflowId::of(windlass::task_id());
        let asked = [ids[2], unknown, ids[0], ids[2], ids[1], ids[0]];
        let rows = hand.client.functions().readiness().batch(&asked).await.unwrap();
        assert_eq!(rows, expected);
        assert!(rows.is_sorted_by_key(|row| (row.workflow, row.step)) && rows.len() == 6);
        let none = hand.client.functions().readiness().batch(&[unknown]).await.unwrap();
        assert!(none.is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dependencies_of_one_step_are_checked() {
    on_each(async |hand| {
        let id = hand.start(json!({ "a": w(&[]), "b": w(&["a"]) })).await;
        let readiness = hand.client.functions().readiness();
        let satisfied =
            async |step| readiness.dependencies(id.step(step)).await.unwrap().dependencies_satisfied;
        assert!(satisfied(0).await && !satisfied(1).await);
        hand.work(completed()).await;
        assert!(satisfied(1).await);
        let refused = readiness.dependencies(id.step(2)).await.unwrap_err();
        assert!(matches!(refused.rejected(), Some(Rejected::NotFound { .. })), "{refused}");
        let refused = readiness.dependencies(windlass::task_id()).await.unwrap_err();
        assert!(matches!(refused.rejected(), Some(Rejected::UnknownWorkflow { .. })), "{refused}");
    })
    .await;
}

/// C42: what keeps a step from running, and nothing, if and only if it is ready; counted the same everywhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_ready_has_a_reason() {
    on_each(async |hand| {
        let lane = json!({ "key": "narrow", "limit": 1 });
        let retry = json!({ "max_attempts": 3, "initial": "1h", "max": "1h" });
        let id = hand
            .start(json!({
                "a": { "task": "work", "lane": lane }, "b": { "task": "work", "lane": lane },
                "c": { "task": "work", "retry": retry }, "d": w(&["c"]),
            }))
            .await;
        let functions = hand.client.functions();
        let check = async |expected: [Option<BlockingReason>; 4]| {
            let rows = hand.status(id).await;
            let reasons: Vec<_> = rows.iter().map(|row| row.blocking_reason).collect();
            assert_eq!(reasons, expected);
            let ready = rows.iter().filter(|row| row.ready_for_execution).count();
            assert!(rows.iter().all(|row| row.ready_for_execution == row.blocking_reason.is_none()));
            assert_eq!(functions.readiness().ready_steps(id).await.unwrap().len(), ready);
            let (_, context) = functions.discovery().context(id).await.unwrap();
            assert_eq!(usize::try_from(context.ready).unwrap(), ready);
            assert_eq!(functions.discovery().ready_info(id).await.unwrap().ready, ready as u64);
            let inspection = hand.client.inspect(id).await.unwrap().unwrap();
            let shown = inspection.tasks.iter().map(|task| inspection.blocking_reason(task));
            assert_eq!(shown.collect::<Vec<_>>(), expected);
        };
        let (busy, backoff) =
            (Some(BlockingReason::AlreadyInProcess), Some(BlockingReason::BackoffNotElapsed));
        let (unmet, invalid) =
            (Some(BlockingReason::DependenciesNotSatisfied), Some(BlockingReason::InvalidState));
        check([None, busy, None, unmet]).await;
        let held = hand.claim(10).await;
        assert_eq!(held.len(), 2);
        check([busy, busy, busy, unmet]).await;
        let of_c = held.iter().find(|one| one.task.id == id.step(2)).unwrap();
        hand.report(of_c, failed(true, None)).await;
        check([busy, busy, backoff, unmet]).await;
        assert!(functions.readiness().set_backoff(id.step(2), Duration::ZERO).await.unwrap());
        check([busy, busy, None, unmet]).await;
        hand.client.steer(id, Steering::Pause, By::default()).await.unwrap();
        check([busy, invalid, invalid, unmet]).await;
        hand.client.steer(id, Steering::Resume, By::default()).await.unwrap();
        check([busy, busy, None, unmet]).await;
        // A list is being worked on as long as its items are.
        let list = hand.start(json!({ "a": { "task": "work", "map": { "over": [1, 2] } } })).await;
        let one = hand.claim(10).await.into_iter().find(|one| one.task.id == list.step(0)).unwrap();
        let items = vec![Json::payload("1").unwrap(), Json::payload("2").unwrap()];
        hand.report(&one, Outcome::Expanded { items, max_parallel: None, lanes: Vec::new() }).await;
        let row = hand.status(list).await.remove(0);
        assert_eq!((row.state, row.blocking_reason), (StepState::InProgress, busy));
    })
    .await;
}

/// C49: what a condition leaves out is over, and so is what comes after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_false_condition_leaves_nothing_waiting() {
    on_each(async |hand| {
        let steps = json!({
            "a": w(&[]), "b": { "task": "work", "needs": ["a"], "if": "input.go" }, "c": w(&["b"]), "d": w(&["a"]),
        });
        let definition: Definition =
            serde_json::from_value(json!({ "name": "flow", "steps": steps })).unwrap();
        let start = hand.client.start_ad_hoc(definition).input(&json!({ "go": false }));
        let id = start.await.unwrap().id;
        let rows = hand.status(id).await;
        assert_eq!(rows[1].blocking_reason, Some(BlockingReason::DependenciesNotSatisfied));
        assert!(rows.iter().all(|row| row.state == StepState::Pending));
        let worker = hand.windlass.worker().handle_kind("work", |_| async { Ok(()) }).start().await.unwrap();
        let ended = hand.client.wait_for_workflow(id).await.unwrap().workflow;
        worker.stop().await.unwrap();
        assert_eq!((ended.state, ended.counts.done, ended.counts.skipped), (WorkflowState::Complete, 2, 2));
        let rows = hand.status(id).await;
        let states: Vec<_> = rows.iter().map(|row| row.state).collect();
        use StepState::{Cancelled, Complete};
        assert_eq!(states, [Complete, Cancelled, Cancelled, Complete]);
        assert!(rows.iter().all(|row| row.blocking_reason == Some(BlockingReason::InvalidState)));
        assert!(rows[1].dependencies_satisfied && !rows[2].dependencies_satisfied);
        assert_eq!((rows[2].total_parents, rows[2].completed_parents), (1, 0), "skipped is not done");
        let (_, context) = hand.client.functions().discovery().context(id).await.unwrap();
        assert_eq!((context.status, context.health()), (ExecutionStatus::AllComplete, "healthy"));
        assert_eq!((context.completed, context.left_out, context.ready), (2, 2, 0));
        assert_eq!(context.completion_percentage(), 100.0);
        assert!(hand.client.functions().state().finalize(id).await.unwrap());
    })
    .await;
}

/// However many ask while the last steps end, and however often: all see the one end, and the history has it
/// once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn finalizing_is_the_same_for_all_who_ask_at_once() {
    on_each(async |hand| {
        let steps: serde_json::Map<_, _> = (0..8).map(|n| (format!("s{n}"), w(&[]))).collect();
        for _ in 0..5 {
            let id = hand.start(Value::Object(steps.clone())).await;
            let asking: Vec<_> = (0..16)
                .map(|_| {
                    let client = hand.client.clone();
                    tokio::spawn(async move {
                        let mut asked = 0;
                        while !client.functions().state().finalize(id).await.unwrap() {
                            asked += 1;
                            tokio::task::yield_now().await;
                        }
                        // What was complete once is.
                        assert!(client.functions().state().finalize(id).await.unwrap());
                        asked
                    })
                })
                .collect();
            let held = hand.claim(8).await;
            assert_eq!(held.len(), 8);
            let ends = held.iter().map(|one| hand.report(one, completed()));
            for end in ends {
                end.await;
            }
            let mut asked = 0;
            for one in asking {
                asked += tokio::time::timeout(Duration::from_secs(60), one).await.unwrap().unwrap();
            }
            println!("asked {asked} times too early");
            let record = hand.client.workflow(id).await.unwrap().unwrap();
            let ends = record.history.iter().filter(|entry| entry.to == WorkflowState::Complete).count();
            assert_eq!((record.workflow.state, ends), (WorkflowState::Complete, 1));
            assert!(record.history.iter().zip(1..).all(|(entry, seq)| entry.seq == seq));
            let (_, context) = hand.client.functions().discovery().context(id).await.unwrap();
            assert_eq!((context.completed, context.status), (8, ExecutionStatus::AllComplete));
        }
    })
    .await;
}

/// 2.22: of a queue that is empty, has one or several, or stands behind many others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_is_told_by_its_own_tasks() {
    on_each(async |hand| {
        let health = hand.client.functions().health();
        let told = async |queue: &str| {
            let told = health.queue(queue).await.unwrap();
            assert_eq!(told.length > 0, told.oldest.is_some() && told.newest.is_some(), "{told:?}");
            assert!(told.oldest >= told.newest, "{told:?}");
            told.length
        };
        assert_eq!((told("mine").await, told("others").await), (0, 0));
        let submit = async |queue: &str, many: usize| {
            let (queue, kind) = (Name::queue(queue).unwrap(), Name::kind("work").unwrap());
            let new = || {
                let task = NewTask::new(windlass::task_id(), kind.clone(), Json::default());
                NewTask { queue: queue.clone(), ..task }
            };
            hand.windlass.store().submit((0..many).map(|_| new()).collect()).await.unwrap();
        };
        // More than a store looks at for one page.
        for _ in 0..=limits::PAGE_SCAN / limits::BATCH {
            submit("others", limits::BATCH).await;
        }
        submit("mine", 1).await;
        assert_eq!(told("mine").await, 1);
        submit("mine", 2).await;
        assert_eq!((told("mine").await, told("nobody").await), (3, 0));
        assert_eq!(told("others").await, (limits::PAGE_SCAN + limits::BATCH) as u64);
        let tenant = hand.client.clone().namespace("tenant").unwrap();
        assert_eq!(tenant.functions().health().queue("mine").await.unwrap().length, 0);
    })
    .await;
}

/// C45: a workflow that waits as long as it was told to rests from the end of that on.
#[tokio::test]
async fn a_long_wait_is_not_stale() {
    const HOUR: Duration = Duration::from_secs(3600);
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1_767_225_600_000_000)));
    let hand = Hand::of(Windlass::new(Arc::new(MemoryStore::new(clock.clone())))).await;
    let retry = json!({ "max_attempts": 3, "initial": "2h", "max": "2h" });
    let id = hand.start(json!({ "a": { "task": "work", "retry": retry }, "b": w(&["a"]) })).await;
    let stale = async || {
        let stale = hand.client.functions().health().stale(Patience::default()).await.unwrap();
        stale.iter().map(|one| (one.workflow.id, one.word(), one.rested)).collect::<Vec<_>>()
    };
    clock.advance(HOUR * 2 / 5);
    assert_eq!(stale().await, [(id, "warning", HOUR * 2 / 5)], "nobody claims it");
    // It was silent for as long.
    hand.windlass.store().register(NewWorker::new(hand.worker.clone())).await.unwrap();
    hand.work(failed(true, None)).await;
    for _ in 0..4 {
        assert_eq!(stale().await, [], "it waits, as it should");
        clock.advance(HOUR / 2);
    }
    assert_eq!(stale().await, [], "it is due now");
    clock.advance(HOUR * 2 / 5);
    assert_eq!(stale().await, [(id, "warning", HOUR * 2 / 5)], "nobody has promoted it");
    clock.advance(HOUR / 10);
    assert_eq!(stale().await, [(id, "stale", HOUR / 2)]);
    hand.client.steer(id, Steering::Cancel, By::default()).await.unwrap();
    assert_eq!(stale().await, [], "what is over may rest");
}
