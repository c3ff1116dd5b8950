//! What the store and the core say, in the columns of the document, beside what SQL says.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use windlass_core::{
    Analytics, BlockingReason, Connections, Entry, ExecutionContext, Place, Readiness, Reason, State,
    StepState, SystemHealth, TaskId, Timestamp, Waits, Workflow, WorkflowId, WorkflowState,
};
use windlass_store::{Page, Reads, ReadyWorkflow, Record, Store, WorkflowFilter, WorkflowRecord};

use crate::world::{World, is_done, micros, shown};

/// The version as it is shown.
fn version(workflow: &Workflow) -> &str {
    if Workflow::is_own_version(&workflow.version) { "" } else { &workflow.version }
}

/// What a definition is named by, and one of its steps.
fn name_of(workflow: &Workflow, step: Option<&str>) -> String {
    let of = format!("{}/{}/{}", workflow.namespace, workflow.name, version(workflow));
    step.map_or(of.clone(), |step| format!("{of}/{step}"))
}

fn step_name<'a>(record: &'a WorkflowRecord, task: &Record) -> &'a str {
    &record.blueprint.step(Place::of(task.task.id).step).unwrap().name
}

/// Numbers of SQL and of Rust are the same if they are to so many decimals.
fn is_near(sql: &Value, rust: f64, within: f64) -> bool {
    (sql.as_f64().unwrap() - rust).abs() <= within
}

/// Everything about one workflow.
pub(crate) async fn workflow(world: &mut World, id: WorkflowId) {
    let (record, tasks) = world.known(id).await;
    readiness(world, &record, &tasks).await;
    graph(world, &record, &tasks).await;
    state(world, &record, &tasks).await;
    steps_and_edges(world, &record, &tasks).await;
    transitions(world, &record, &tasks).await;
}

fn last_failure(record: &Record) -> Option<Timestamp> {
    let is_failure = |entry: &&Entry| {
        entry.reason == Reason::Failed || matches!(entry.to, State::Failed | State::DeadLetter)
    };
    record.history.iter().rev().find(is_failure).map(|entry| entry.at)
}

/// What the core says about each task.
fn readiness_of(record: &WorkflowRecord, tasks: &[Record], now: Timestamp) -> Vec<Readiness> {
    let states: BTreeMap<TaskId, State> =
        tasks.iter().map(|record| (record.task.id, record.task.status.state)).collect();
    let state_of = |step| states.get(&record.workflow.id.step(step)).copied();
    let of = |task: &Record| {
        Readiness::of(&task.task, &record.workflow, &record.blueprint, state_of, last_failure(task), now)
    };
    tasks.iter().map(of).collect()
}

fn expected_readiness(record: &WorkflowRecord, tasks: &[Record], now: Timestamp) -> Vec<Value> {
    let mut rows = Vec::new();
    for it in readiness_of(record, tasks, now) {
        let seconds = it.backoff.map(|backoff| backoff.as_secs());
        rows.push(json!({
            "workflow_step_uuid": it.step.to_string(),
            "task_uuid": it.workflow.to_string(),
            "named_step_uuid": it.named_step.to_string(),
            "name": it.name,
            "current_state": it.state.word(),
            "dependencies_satisfied": it.dependencies_satisfied,
            "retry_eligible": it.retry_eligible,
            "ready_for_execution": it.ready_for_execution,
            "last_failure_at": micros(it.last_failure_at),
            "next_retry_at": micros(it.next_retry_at),
            "total_parents": it.total_parents,
            "completed_parents": it.completed_parents,
            "attempts": it.attempts,
            "max_attempts": it.max_attempts.unwrap_or(3),
            "backoff_request_seconds": seconds,
            "last_attempted_at": micros(it.last_attempted_at),
        }));
    }
    rows
}

async fn readiness(world: &mut World, record: &WorkflowRecord, tasks: &[Record]) {
    let id = record.workflow.id;
    // A wait of no time is over, all others are long: it does not matter that the two look at different
    // moments.
    let now = world.store.now().await.unwrap();
    let expected = expected_readiness(record, tasks, now);
    let rows = world.rows(&format!("SELECT * FROM get_step_readiness_status('{id}')")).await;
    for (row, expected) in rows.iter().zip(&expected) {
        assert_eq!(row, expected);
    }
    assert_eq!(rows.len(), expected.len());
    let ready: Vec<_> =
        expected.iter().filter(|row| row["ready_for_execution"] == json!(true)).cloned().collect();
    assert_eq!(world.rows(&format!("SELECT * FROM get_ready_steps('{id}')")).await, ready);
    for (row, task) in readiness_of(record, tasks, now).iter().zip(tasks) {
        reasons(world, row, task, record.workflow.paused).await;
    }
    for row in &expected {
        let step = row["workflow_step_uuid"].as_str().unwrap();
        // C47: parents that are not asked for count.
        let sql = format!("SELECT * FROM get_step_readiness_status('{id}', ARRAY['{step}']::uuid[])");
        assert_eq!(world.rows(&sql).await, std::slice::from_ref(row));
        let satisfied = world.value(&format!("check_step_dependencies('{step}')")).await;
        assert_eq!(satisfied, row["dependencies_satisfied"], "{row}");
    }
    let Some(other) = world.any().filter(|other| *other != id) else { return };
    let (record, tasks) = world.known(other).await;
    let more = expected_readiness(&record, &tasks, now);
    let both = if id < other { [expected, more] } else { [more, expected] }.concat();
    let sql = format!(
        "SELECT * FROM get_step_readiness_status_batch(ARRAY['{other}', '{id}', '{other}', gen_random_uuid()]::uuid[])"
    );
    assert_eq!(world.rows(&sql).await, both);
}

/// C42, 2.9: what keeps a step from running, and what the document's formula makes of the columns of its row.
async fn reasons(world: &World, row: &Readiness, task: &Record, paused: bool) {
    let Readiness { state, dependencies_satisfied, retry_eligible, ready_for_execution, .. } = row;
    let reason = row.blocking_reason;
    assert_eq!(reason.is_none(), *ready_for_execution, "{row:?}");
    if reason == Some(BlockingReason::DependenciesNotSatisfied) {
        assert!(!dependencies_satisfied, "{row:?}");
    }
    if reason == Some(BlockingReason::RetryNotEligible) {
        assert!(*state == StepState::Error, "{row:?}");
    }
    let status = &task.task.status;
    let is_in_process = matches!(state, StepState::Enqueued | StepState::InProgress);
    let processed = is_done(status.state);
    let next = status.due_at.map_or("NULL".into(), moment);
    let call = format!(
        "evaluate_step_state_readiness('{state}', {processed}, {is_in_process}, {dependencies_satisfied}, {retry_eligible}, true, {next})"
    );
    // The formula knows neither lanes nor operators who pause, and a step that could begin may do so although
    // a parent was opened again.
    let only_here = task.task.is_parked() || paused || status.waits == Waits::Resume;
    let evaluated = match only_here {
        true => world.value(&call).await.as_bool().unwrap() && *ready_for_execution,
        false => world.value(&call).await.as_bool().unwrap(),
    };
    let expected = *ready_for_execution && *dependencies_satisfied && *retry_eligible;
    assert_eq!(evaluated, expected, "{call}, {row:?}");
}

/// A moment in SQL, to the microsecond.
fn moment(at: Timestamp) -> String {
    let micros = at.as_micros();
    format!("to_timestamp({}) + interval '{} us'", micros / 1_000_000, micros % 1_000_000)
}

async fn graph(world: &mut World, record: &WorkflowRecord, tasks: &[Record]) {
    let (id, graph) = (record.workflow.id, record.blueprint.graph());
    let mut levels: Vec<_> =
        tasks.iter().map(|task| (graph.level(Place::of(task.task.id).step), task.task.id)).collect();
    levels.sort_unstable();
    let expected: Vec<_> = levels
        .iter()
        .map(|(level, task)| json!({ "workflow_step_uuid": task.to_string(), "dependency_level": level }))
        .collect();
    assert_eq!(world.rows(&format!("SELECT * FROM calculate_dependency_levels('{id}')")).await, expected);
    let found: BTreeMap<_, _> = tasks.iter().map(|record| (record.task.id, record)).collect();
    for (level, task) in levels {
        assert_eq!(world.value(&format!("calculate_step_depth('{task}')")).await, json!(level));
        let mut ancestors = graph.ancestors(Place::of(task).step);
        ancestors.sort_unstable_by_key(|(step, distance)| (*distance, *step));
        let expected: Vec<_> = ancestors
            .iter()
            .map(|(step, distance)| {
                let other = found[&id.step(*step)];
                json!({
                    "step_name": step_name(record, other),
                    "step_uuid": id.step(*step).to_string(),
                    "task_uuid": id.to_string(),
                    "distance": distance,
                    "processed": is_done(other.task.status.state),
                    "results": other.result.as_ref().map(shown),
                })
            })
            .collect();
        let sql = format!("SELECT * FROM get_step_transitive_dependencies('{task}')");
        assert_eq!(world.rows(&sql).await, expected);
        let other = world.random.pick(tasks).task.id;
        let (from, to) = (Place::of(task).step, Place::of(other).step);
        let expected = json!(from == to || graph.is_ancestor(to, from));
        assert_eq!(world.value(&format!("detect_cycle('{task}', '{other}')")).await, expected);
        // Of another workflow, or not there: no edge can lead from one to the other.
        let stranger = world.any().filter(|stranger| *stranger != id).unwrap_or(WorkflowId::of(task));
        for apart in [stranger.step(0), id.step(999), TaskId::from_bytes(*id.as_bytes())] {
            if WorkflowId::of(apart) == id && found.contains_key(&apart) {
                continue;
            }
            for call in [format!("'{task}', '{apart}'"), format!("'{apart}', '{task}'")] {
                assert_eq!(world.value(&format!("detect_cycle({call})")).await, json!(false), "{call}");
            }
        }
    }
}

async fn state(world: &World, record: &WorkflowRecord, tasks: &[Record]) {
    let Workflow { id, state, priority, namespace, name, .. } = &record.workflow;
    assert_eq!(world.value(&format!("get_current_task_state('{id}')")).await, json!(state.word()));
    let context = ExecutionContext::of(
        tasks.iter().map(|record| &record.task),
        record.workflow.paused,
        world.store.now().await.unwrap(),
    );
    let mut row = world.row(&format!("SELECT * FROM get_task_execution_context('{id}')")).await;
    let percentage = row.as_object_mut().unwrap().remove("completion_percentage").unwrap();
    assert!(is_near(&percentage, context.completion_percentage(), 0.005), "{percentage} {context:?}");
    let expected = json!({
        "task_uuid": id.to_string(),
        "named_task_uuid": world.named(&name_of(&record.workflow, None)).await,
        "status": state.word(),
        "total_steps": context.total,
        "pending_steps": context.pending,
        "in_progress_steps": context.in_progress,
        "completed_steps": context.completed,
        "failed_steps": context.failed,
        "ready_steps": context.ready,
        "execution_status": context.status.word(),
        "recommended_action": context.status.recommended_action(),
        "health_status": context.health(),
        "enqueued_steps": context.enqueued,
    });
    assert_eq!(row, expected);
    // One notion of ready, wherever it is counted.
    let ready = world.rows(&format!("SELECT * FROM get_ready_steps('{id}')")).await.len();
    assert_eq!(json!(ready), row["ready_steps"]);
    let complete = world.value(&format!("finalize_task_completion(task_uuid => '{id}')")).await;
    assert_eq!(complete, json!(*state == WorkflowState::Complete), "{state}");
    let after = world.store.workflow(*id).await.unwrap().unwrap();
    assert_eq!(after, *record, "there was nothing to be done");
    let mut row = world.row(&format!("SELECT * FROM get_task_ready_info('{id}')")).await;
    let computed = row.as_object_mut().unwrap().remove("computed_priority").unwrap();
    let now = world.store.now().await.unwrap();
    assert!(is_near(&computed, record.workflow.computed_priority(now), 0.001), "{computed}");
    let expected = json!({
        "task_uuid": id.to_string(),
        "task_name": **name,
        "priority": priority,
        "namespace_name": **namespace,
        "ready_steps_count": context.ready,
        "current_state": state.word(),
    });
    assert_eq!(row, expected);
}

/// The views of a workflow, its steps and what they come after, by either id.
async fn steps_and_edges(world: &World, record: &WorkflowRecord, tasks: &[Record]) {
    let workflow = &record.workflow;
    let id = workflow.id;
    let expected = json!({
        "task_uuid": id.to_string(),
        "named_task_uuid": world.named(&name_of(workflow, None)).await,
        "current_state": workflow.state.word(),
        "complete": workflow.is_success(),
        "priority": workflow.priority,
        "initiator": record.history[0].actor,
        "context": shown(&record.input),
        "identity_hash": workflow.key,
        "parent_task_uuid": workflow.parent.map(|parent| WorkflowId::of(parent).to_string()),
        "requested_at": micros(Some(workflow.created_at)),
        "completed_at": micros(workflow.finished_at),
        "created_at": micros(Some(workflow.created_at)),
        "updated_at": micros(Some(workflow.updated_at)),
    });
    assert_eq!(world.row(&format!("SELECT * FROM tasks WHERE task_uuid = '{id}'")).await, expected);
    let sql = format!("SELECT * FROM workflow_steps WHERE task_uuid = '{id}' ORDER BY workflow_step_uuid");
    let rows = world.rows(&sql).await;
    let now = world.store.now().await.unwrap();
    let ready = expected_readiness(record, tasks, now);
    assert_eq!(rows.len(), tasks.len());
    let mut edges = Vec::new();
    for ((row, ready), task) in rows.iter().zip(ready).zip(tasks) {
        let (step, status) = (task.task.id, &task.task.status);
        let shared = [
            "workflow_step_uuid",
            "task_uuid",
            "named_step_uuid",
            "name",
            "current_state",
            "max_attempts",
            "attempts",
            "last_attempted_at",
            "backoff_request_seconds",
        ];
        let mut expected: Map<String, Value> =
            shared.iter().map(|name| ((*name).to_owned(), ready[*name].clone())).collect();
        let is_done = is_done(status.state);
        let in_process = matches!(StepState::of(status), StepState::Enqueued | StepState::InProgress);
        let own = json!({
            "retryable": !matches!(status.state, State::Failed | State::DeadLetter),
            "in_process": in_process,
            "processed": is_done,
            "processed_at": micros(status.finished_at.filter(|_| is_done)),
            "inputs": shown(&task.payload),
            "results": task.result.as_ref().map(shown),
            "created_at": micros(Some(task.task.spec.created_at)),
            "updated_at": micros(Some(status.updated_at)),
        });
        expected.extend(own.as_object().unwrap().clone());
        assert_eq!(*row, Value::Object(expected));
        let sql = format!("SELECT * FROM workflow_steps WHERE workflow_step_uuid = '{step}'");
        assert_eq!(world.row(&sql).await, *row);
        let Place { step: number, item: None } = Place::of(step) else { continue };
        let mut parents = record.blueprint.graph().parents(number).to_vec();
        parents.sort_unstable();
        let leading: Vec<_> =
            parents.iter().map(|parent| (id.step(*parent).to_string(), step.to_string())).collect();
        let sql = format!("SELECT * FROM workflow_step_edges WHERE to_step_uuid = '{step}' ORDER BY 1");
        assert_eq!(edges_of(&world.rows(&sql).await), leading);
        edges.extend(leading);
    }
    let sql = format!(
        "SELECT * FROM workflow_step_edges WHERE task_uuid = '{id}' ORDER BY to_step_uuid, from_step_uuid"
    );
    assert_eq!(edges_of(&world.rows(&sql).await), edges);
}

fn edges_of(rows: &[Value]) -> Vec<(String, String)> {
    let text = |row: &Value, column: &str| row[column].as_str().unwrap().to_owned();
    rows.iter().map(|row| (text(row, "from_step_uuid"), text(row, "to_step_uuid"))).collect()
}

/// 2.3: histories, each row with the state before it, and one of them the most recent.
async fn transitions(world: &World, record: &WorkflowRecord, tasks: &[Record]) {
    let id = record.workflow.id;
    let entry = |n: usize, of: usize, actor: &Option<String>, note: &Option<String>, at: Timestamp| {
        let actor = actor.as_deref();
        let metadata = match note.as_deref() {
            None => json!({}),
            Some(note) => serde_json::from_str(note)
                .ok()
                .filter(Value::is_object)
                .unwrap_or_else(|| json!({ "note": note })),
        };
        let uuid = actor.filter(|actor| actor.len() == 36);
        let row = json!({
            "sort_key": n + 1, "most_recent": n + 1 == of, "processor": actor, "processor_uuid": uuid,
            "created_at": at.as_micros(), "updated_at": at.as_micros(),
        });
        (row.as_object().unwrap().clone(), metadata)
    };
    let mut expected = Vec::new();
    for (n, line) in record.history.iter().enumerate() {
        let (mut row, metadata) = entry(n, record.history.len(), &line.actor, &line.note, line.at);
        row.insert("task_uuid".into(), json!(id.to_string()));
        row.insert("from_state".into(), json!(line.from.map(WorkflowState::word)));
        row.insert("to_state".into(), json!(line.to.word()));
        row.insert("transition_metadata".into(), metadata);
        expected.push(Value::Object(row));
    }
    let sql = format!("SELECT * FROM task_transitions WHERE task_uuid = '{id}' ORDER BY sort_key");
    assert_eq!(world.rows(&sql).await, expected);
    for task in tasks {
        let step = task.task.id;
        let mut told: Vec<(StepState, &Entry)> = Vec::new();
        for line in &task.history {
            let word = match line.reason.word() {
                "expanded" | "nested" if line.to == State::Waiting => StepState::InProgress,
                _ => word_of(line.to),
            };
            if told.last().is_none_or(|(before, _)| *before != word) {
                told.push((word, line));
            }
        }
        assert_eq!(told.last().unwrap().0, StepState::of(&task.task.status), "the last is where it is");
        let mut expected = Vec::new();
        for (n, (word, line)) in told.iter().enumerate() {
            let (mut row, metadata) = entry(n, told.len(), &line.actor, &line.note, line.at);
            let before = n.checked_sub(1).map(|before| told[before].0.word());
            row.insert("workflow_step_uuid".into(), json!(step.to_string()));
            row.insert("from_state".into(), json!(before));
            row.insert("to_state".into(), json!(word.word()));
            row.insert("metadata".into(), metadata);
            expected.push(Value::Object(row));
        }
        let sql = format!(
            "SELECT * FROM workflow_step_transitions WHERE workflow_step_uuid = '{step}' ORDER BY sort_key"
        );
        assert_eq!(world.rows(&sql).await, expected);
    }
}

fn word_of(state: State) -> StepState {
    match state {
        State::Waiting | State::Scheduled | State::Pending => StepState::Pending,
        State::Claimed => StepState::Enqueued,
        State::Running => StepState::InProgress,
        State::WaitingForRetry => StepState::WaitingForRetry,
        State::Completed => StepState::Complete,
        State::Failed | State::DeadLetter => StepState::Error,
        State::Cancelled | State::Skipped => StepState::Cancelled,
        State::ResolvedManually => StepState::ResolvedManually,
    }
}

/// Counts, analytics and what is ready.
pub(crate) async fn whole(world: &World) {
    let (workflows, steps) =
        (world.store.workflow_counts().await.unwrap(), world.store.counts().await.unwrap());
    let mut row = world.row("SELECT * FROM get_system_health_counts()").await;
    let mut take = |name: &str| row.as_object_mut().unwrap().remove(name).unwrap().as_u64().unwrap();
    let connections = Connections { active: take("active_connections"), max: take("max_connections") };
    assert!(connections.active > 1 && connections.active <= connections.max, "{connections:?}");
    let health = SystemHealth::new(
        workflows.iter().map(|count| (count.state, count.workflows)),
        steps.iter().filter(|count| count.is_step).map(|count| (count.state, count.tasks)),
        connections,
    );
    let mut expected = Map::new();
    for state in WorkflowState::ALL {
        expected.insert(format!("{state}_tasks"), json!(health.workflows(state)));
    }
    for state in StepState::ALL {
        expected.insert(format!("{state}_steps"), json!(health.steps(state)));
    }
    expected.insert("total_tasks".into(), json!(health.total_workflows()));
    expected.insert("total_steps".into(), json!(health.total_steps()));
    assert_eq!(row, Value::Object(expected));

    let at = world.store.now().await.unwrap();
    let since = at.minus(std::time::Duration::from_secs(3 * 3600));
    let activity = world.store.activity(since, None).await.unwrap();
    let definitions = workflows.iter().map(|count| (&count.namespace, &count.name));
    let told = Analytics::new(activity, &health, definitions, since, at);
    let since = moment(since);
    let row = world.row(&format!("SELECT * FROM get_analytics_metrics(since_timestamp => {since})")).await;
    for (column, count) in [
        ("active_tasks_count", told.active_workflows),
        ("total_namespaces_count", told.namespaces),
        ("unique_task_types_count", told.definitions),
        ("task_throughput", activity.started),
        ("completion_count", activity.completed),
        ("error_count", activity.failed),
        ("step_throughput", activity.steps),
    ] {
        assert_eq!(row[column], json!(count), "{column}");
    }
    for (column, number, within) in [
        ("completion_rate", told.completion_rate(), 0.011),
        ("error_rate", told.error_rate(), 0.011),
        ("avg_task_duration", told.average_workflow_seconds(), 0.0011),
        ("avg_step_duration", told.average_step_seconds(), 0.0011),
        // Connections come and go between two looks.
        ("system_health_score", told.health_score, 0.02),
    ] {
        assert!(is_near(&row[column], number, within), "{column} is {} and not {number}", row[column]);
    }
    assert_eq!(row["analysis_period_start"], json!(told.since.as_micros()));
    assert!((row["calculated_at"].as_i64().unwrap() - at.as_micros()).abs() < 60_000_000);
    assert_eq!(row.as_object().unwrap().len(), 14);

    let ready = world.store.ready_workflows(None, None, 7).await.unwrap();
    for (call, many) in [("get_next_ready_tasks(7)", 7), ("get_next_ready_task()", 1)] {
        let mut rows = world.rows(&format!("SELECT * FROM {call}")).await;
        for (row, ready) in rows.iter_mut().zip(&ready) {
            let priority = row.as_object_mut().unwrap().remove("computed_priority").unwrap();
            assert!(is_near(&priority, ready.workflow.computed_priority(at), 0.001), "{priority} {row}");
        }
        let expected = ready.iter().take(many).map(|ReadyWorkflow { workflow, ready }| {
            json!({
                "task_uuid": workflow.id.to_string(),
                "task_name": *workflow.name,
                "priority": workflow.priority,
                "namespace_name": *workflow.namespace,
                "ready_steps_count": ready,
                "current_state": workflow.state.word(),
            })
        });
        assert_eq!(rows, expected.collect::<Vec<_>>(), "{call}");
    }
}

async fn all(world: &World) -> Vec<(WorkflowRecord, Vec<Record>)> {
    let mut all = Vec::new();
    let page = Page { limit: 1000, oldest_first: true, after: None };
    let listing = world.store.workflows(WorkflowFilter::default(), page).await.unwrap();
    assert!(listing.next.is_none());
    for workflow in listing.workflows {
        all.push(world.known(workflow.id).await);
    }
    all
}

/// How long something took, whether it failed, and when it ended.
type Execution = (Option<i64>, bool, Timestamp);

fn lasted(from: Option<Timestamp>, to: Timestamp) -> Option<i64> {
    from.map(|from| (to.as_micros() - from.as_micros()).max(0))
}

/// What was executed since a moment: of each step and each workflow, and by definition.
#[derive(Default)]
struct Executed {
    steps: BTreeMap<(String, String), Vec<Execution>>,
    tasks: BTreeMap<String, Vec<(Execution, u32)>>,
    /// How long each took, negative so that the slowest come first, its id, and its row without that time.
    one_step: Vec<(i64, String, Value)>,
    one_task: Vec<(i64, String, Value)>,
}

impl Executed {
    fn of(all: &[(WorkflowRecord, Vec<Record>)], from: i64, is_wanted: impl Fn(&Workflow) -> bool) -> Self {
        let mut executed = Self::default();
        for (record, found) in all.iter().filter(|(record, _)| is_wanted(&record.workflow)) {
            for task in found {
                executed.note_step(record, task, from);
            }
            executed.note_task(&record.workflow, from);
        }
        executed.one_step.sort_by(|(one, id, _), (other, next, _)| (one, id).cmp(&(other, next)));
        executed.one_task.sort_by(|(one, id, _), (other, next, _)| (one, id).cmp(&(other, next)));
        executed
    }

    fn note_step(&mut self, record: &WorkflowRecord, task: &Record, from: i64) {
        let (workflow, status) = (&record.workflow, &task.task.status);
        let failed = matches!(status.state, State::Failed | State::DeadLetter);
        let Some(at) = status.finished_at.filter(|at| at.as_micros() >= from) else { return };
        if !failed && status.state != State::Completed {
            return;
        }
        let name = step_name(record, task).to_owned();
        let took = lasted(status.started_at, at);
        self.steps
            .entry((name_of(workflow, Some(&name)), name.clone()))
            .or_default()
            .push((took, failed, at));
        let id = task.task.id.to_string();
        let row = json!({
            "workflow_step_uuid": id,
            "task_uuid": workflow.id.to_string(),
            "namespace_name": *workflow.namespace,
            "task_name": *workflow.name,
            "version": version(workflow),
            "step_name": Workflow::place_name(&name, Place::of(task.task.id)),
            "attempts": status.attempt,
            "step_status": StepState::of(status).word(),
            "created_at": micros(Some(task.task.spec.created_at)),
            "completed_at": micros(Some(at)),
        });
        self.one_step.extend(took.map(|took| (-took, id, row)));
    }

    fn note_task(&mut self, workflow: &Workflow, from: i64) {
        let failed = workflow.state == WorkflowState::Error;
        let Some(at) = workflow.finished_at.filter(|at| at.as_micros() >= from) else { return };
        if !failed && workflow.state != WorkflowState::Complete {
            return;
        }
        let took = lasted(Some(workflow.created_at), at);
        let (many, id) = (workflow.counts.total(), workflow.id.to_string());
        self.tasks.entry(name_of(workflow, None)).or_default().push(((took, failed, at), many));
        let row = json!({
            "task_uuid": id,
            "namespace_name": *workflow.namespace,
            "task_name": *workflow.name,
            "version": version(workflow),
            "step_count": many,
            "completed_steps": workflow.counts.done,
            "error_steps": workflow.counts.failed,
            "task_status": workflow.state.word(),
            "created_at": micros(Some(workflow.created_at)),
            "completed_at": micros(Some(at)),
        });
        self.one_task.extend(took.map(|took| (-took, id, row)));
    }
}

/// 2.18, C40: aggregated, and of each by itself; since a moment, of one definition, of at least so many.
/// Every filter with every function.
pub(crate) async fn slowest(world: &World, since: Option<Timestamp>) {
    let all = all(world).await;
    let from = since.map_or(i64::MIN, Timestamp::as_micros);
    let since = since.map_or("NULL".into(), moment);
    let every = |_: &Workflow| true;
    type Wanted<'a> = (&'a str, &'a dyn Fn(&Workflow) -> bool);
    let filters: [Wanted<'_>; 8] = [
        ("", &every),
        (", namespace_filter => 'default'", &|workflow| *workflow.namespace == *"default"),
        (", namespace_filter => 'tenant'", &|workflow| *workflow.namespace == *"tenant"),
        (", task_name_filter => 'one'", &|workflow| *workflow.name == *"one"),
        (", version_filter => '1'", &|workflow| workflow.version == "1"),
        (", version_filter => ''", &|workflow| version(workflow).is_empty()),
        (", namespace_filter => 'default', task_name_filter => 'two', version_filter => '1'", &|workflow| {
            *workflow.namespace == *"default" && *workflow.name == *"two" && workflow.version == "1"
        }),
        (", namespace_filter => 'another'", &|_| false),
    ];
    for (filter, is_wanted) in filters {
        let executed = Executed::of(&all, from, is_wanted);
        let arguments = format!("since_timestamp => {since}, limit_count => 100000{filter}");
        instances(world, &executed, &arguments).await;
        for least in [1, 2] {
            together(world, &executed, &format!("{arguments}, min_executions => {least}"), least).await;
        }
    }
    for call in ["steps", "tasks", "steps_instances", "tasks_instances"] {
        let sql = format!("SELECT * FROM get_slowest_{call}(limit_count => 1)");
        assert!(world.rows(&sql).await.len() <= 1);
    }
}

async fn together(world: &World, executed: &Executed, arguments: &str, least: usize) {
    let steps: Vec<_> = executed.steps.iter().filter(|(_, found)| found.len() >= least).collect();
    let rows = world.rows(&format!("SELECT * FROM get_slowest_steps({arguments})")).await;
    assert_eq!(rows.len(), steps.len(), "{arguments}");
    is_sorted(&rows, "avg_duration_seconds");
    for ((of, name), executions) in steps {
        let named = world.named(of).await;
        let row = rows.iter().find(|row| row["named_step_uuid"] == named).expect("a row");
        assert_eq!(row["step_name"], json!(name));
        is_summed(row, executions);
    }
    let tasks: Vec<_> = executed.tasks.iter().filter(|(_, found)| found.len() >= least).collect();
    let rows = world.rows(&format!("SELECT * FROM get_slowest_tasks({arguments})")).await;
    assert_eq!(rows.len(), tasks.len(), "{arguments}");
    is_sorted(&rows, "avg_duration_seconds");
    for (of, executions) in tasks {
        let named = world.named(of).await;
        let row = rows.iter().find(|row| row["named_task_uuid"] == named).expect("a row");
        assert_eq!(row["task_name"], json!(of.split('/').nth(1)));
        let many: f64 = executions.iter().map(|(_, many)| f64::from(*many)).sum();
        assert!(is_near(&row["avg_step_count"], many / float(executions.len()), 0.011), "{row}");
        is_summed(row, &executions.iter().map(|(execution, _)| *execution).collect::<Vec<_>>());
    }
}

async fn instances(world: &World, executed: &Executed, arguments: &str) {
    for (call, expected) in [
        ("get_slowest_steps_instances", &executed.one_step),
        ("get_slowest_tasks_instances", &executed.one_task),
    ] {
        let mut rows = world.rows(&format!("SELECT * FROM {call}({arguments})")).await;
        for (row, (took, ..)) in rows.iter_mut().zip(expected) {
            let seconds_told = row.as_object_mut().unwrap().remove("duration_seconds").unwrap();
            assert!(is_near(&seconds_told, seconds(-took), 0.000_002), "{seconds_told} {row}");
        }
        assert_eq!(
            rows,
            expected.iter().map(|(.., row)| row.clone()).collect::<Vec<_>>(),
            "{call} {arguments}"
        );
    }
}

fn is_sorted(rows: &[Value], column: &str) {
    let values: Vec<_> = rows.iter().map(|row| row[column].as_f64().unwrap_or(-1.0)).collect();
    assert!(values.is_sorted_by(|one, next| one >= next), "{values:?}");
}

#[allow(clippy::cast_precision_loss)]
fn seconds(micros: i64) -> f64 {
    micros as f64 / 1_000_000.0
}

#[allow(clippy::cast_precision_loss)]
fn float(many: usize) -> f64 {
    many as f64
}

/// The numbers of one row of an aggregate.
fn is_summed(row: &Value, executions: &[Execution]) {
    let times: Vec<i64> = executions.iter().filter_map(|(took, ..)| *took).collect();
    let failed = executions.iter().filter(|(_, failed, _)| *failed).count();
    assert_eq!(row["execution_count"], json!(executions.len()), "{row}");
    assert_eq!(row["error_count"], json!(failed), "{row}");
    assert!(is_near(&row["error_rate"], float(failed) * 100.0 / float(executions.len()), 0.011), "{row}");
    let last = executions.iter().map(|(_, _, at)| *at).max();
    assert_eq!(row["last_executed_at"], micros(last), "{row}");
    if times.is_empty() {
        assert_eq!(row["avg_duration_seconds"], Value::Null);
        return;
    }
    let mean = seconds(times.iter().sum()) / float(times.len());
    assert!(is_near(&row["avg_duration_seconds"], mean, 0.000_002), "{row}");
    assert!(is_near(&row["max_duration_seconds"], seconds(*times.iter().max().unwrap()), 0.000_002), "{row}");
    assert!(is_near(&row["min_duration_seconds"], seconds(*times.iter().min().unwrap()), 0.000_002), "{row}");
}

/// The views of what only has a name.
pub(crate) async fn views(world: &World) {
    let mut names: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for (record, _) in all(world).await {
        let steps = &record.blueprint.definition().steps;
        let steps = steps.iter().map(|step| (step.name.to_string(), json!(*step.kind())));
        names.entry(name_of(&record.workflow, None)).or_default().extend(steps);
    }
    let spaces: BTreeMap<String, Value> = world
        .rows("SELECT * FROM task_namespaces")
        .await
        .iter()
        .map(|row| (row["name"].as_str().unwrap().to_owned(), row["task_namespace_uuid"].clone()))
        .collect();
    assert_eq!(spaces["default"], json!("37a8eec1-ce19-687d-132f-e29051dca629"));
    let named = world.rows("SELECT * FROM named_tasks").await;
    for (of, steps) in names {
        let id = world.named(&of).await;
        let rows: Vec<_> = named.iter().filter(|row| row["named_task_uuid"] == id).collect();
        assert_eq!(rows.len(), 1, "{of}");
        let parts: Vec<_> = of.split('/').collect();
        assert_eq!((rows[0]["name"].as_str(), rows[0]["version"].as_str()), (Some(parts[1]), Some(parts[2])));
        assert_eq!(rows[0]["task_namespace_uuid"], spaces[parts[0]]);
        assert_eq!(rows[0]["configuration"]["name"], json!(parts[1]));
        let sql = format!("SELECT * FROM named_steps WHERE named_task_uuid = '{}'", id.as_str().unwrap());
        let rows = world.rows(&sql).await;
        let found: Map<String, Value> = rows
            .iter()
            .map(|row| (row["name"].as_str().unwrap().to_owned(), row["handler"].clone()))
            .collect();
        assert_eq!(found.len(), rows.len(), "one row each");
        // The newest of those that belong to one workflow alone stands for them.
        let is_same = |(name, kind): (&String, &Value)| {
            found.get(name).is_some_and(|it| parts[2].is_empty() || it == kind)
        };
        assert!(found.len() == steps.len() && steps.iter().all(is_same), "{of}: {found:?} {steps:?}");
        for row in rows {
            let step = world.named(&format!("{of}/{}", row["name"].as_str().unwrap())).await;
            assert_eq!(row["named_step_uuid"], step);
        }
    }
}
