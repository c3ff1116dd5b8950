// The types of the contract, written by `npm run wire` from clients/openapi.json: what goes over the wire has these
// names everywhere in this package. Change the contract, not this file.

/** Where a task is. The last six are final. */
export type TaskState =
  | "waiting" | "scheduled" | "pending" | "claimed" | "running" | "waiting_for_retry"
  | "completed" | "failed" | "dead_letter" | "cancelled" | "skipped" | "resolved_manually";

/** Where a workflow is. The last four are final. */
export type WorkflowState =
  | "pending" | "initializing" | "enqueuing_steps" | "steps_in_process" | "evaluating_results"
  | "waiting_for_dependencies" | "waiting_for_retry" | "blocked_by_failures"
  | "complete" | "error" | "cancelled" | "resolved_manually";

/** How all workflows are doing, or those of a namespace, and what has happened lately. */
export interface Analytics {
  /** Workflows that are not over. */
  active_workflows: number;
  at: string;
  average_step_seconds: number;
  average_workflow_seconds: number;
  completed: number;
  /** In percent. */
  completion_rate: number;
  definitions: number;
  /** In percent. */
  error_rate: number;
  failed: number;
  /** 0 to 1. */
  health_score: number;
  is_under_heavy_load: boolean;
  namespaces: number;
  /** From when on the numbers below are counted. */
  since: string;
  started: number;
  /** Steps by state, in the words of document 002. */
  steps: Record<string, number>;
  steps_completed: number;
  steps_failed: number;
  total_steps: number;
  total_workflows: number;
  /** Workflows by state. */
  workflows: Record<string, number>;
}

/** A step that comes before another. */
export interface Ancestor {
  distance: number;
  id: string;
  result: unknown;
  state: TaskState;
  step: string;
}

/** Steps that come before another. */
export interface Ancestors {
  ancestors: Ancestor[];
}

/** The answer to a definition. */
export interface AppliedDefinition {
  created: boolean;
  name: string;
  version: string;
}

/** One attempt. */
export interface Attempt {
  claimed_at: string;
  ended?: string | null | undefined;
  ended_at?: string | null | undefined;
  lease: number;
  log_lines: number;
  note?: string | null | undefined;
  number: number;
  progress?: Progress | null | undefined;
  started_at?: string | null | undefined;
  worker_id?: string | null | undefined;
}

/** The lines that were kept of one attempt's log. */
export interface AttemptLog {
  dropped: number;
  lease: number;
  lines: LogLine[];
  number: number;
}

/** Something that an operator asked for. */
export interface AuditEntry {
  action: string;
  /** The name of the token, and on whose behalf it was used. */
  actor: string;
  at: string;
  /** The namespace that the subject is in, if it is in one. */
  namespace?: string | null | undefined;
  reason?: string | null | undefined;
  subject: string;
}

/** What operators asked for, newest first. */
export interface AuditList {
  entries: AuditEntry[];
  /** Where to go on. */
  next_cursor?: string | null | undefined;
}

/** How delays grow. */
export type Backoff = "none" | "fixed" | "linear" | "exponential" | "fibonacci";

/** What stands in the way of a task: another task, a step, a workflow, a queue that is paused, a worker, or a kind that nobody takes. */
export interface Blocker {
  kind?: string | null | undefined;
  /** Whether that workflow is paused. */
  paused?: boolean | null | undefined;
  queue?: string | null | undefined;
  /** Where that task, step or workflow is. */
  state?: string | null | undefined;
  step?: string | null | undefined;
  task?: string | null | undefined;
  /** Who holds the task, or has fallen silent. */
  worker_id?: string | null | undefined;
  workflow?: string | null | undefined;
}

/** A request for work. */
export interface ClaimRequest {
  /** How many tasks at most; 1 unless said. */
  limit?: number | null | undefined;
  /** What became of earlier claims: carried out first, in the same transaction. */
  outcomes?: Outcome[] | undefined;
  /** How long to wait if there is nothing to do, at most 60; not at all unless said. */
  wait_seconds?: number | null | undefined;
}

/** The answer to a request for work. */
export interface ClaimResponse {
  /** One for each outcome that was told, in order. */
  outcomes: ReportedOutcome[];
  tasks: ClaimedTask[];
}

/** A task for a worker. */
export interface ClaimedTask {
  attempt: number;
  /** What an earlier attempt left behind to go on from. */
  checkpoint: unknown;
  /** When the attempt must be over, if it starts now. */
  deadline?: string | null | undefined;
  entity?: string | null | undefined;
  id: string;
  kind: string;
  /** The proof of the claim, with the id. */
  lease: number;
  max_attempts?: number | null | undefined;
  payload: Verbatim;
  queue: string;
  /** What the steps that it needs have returned, by name. */
  results: Record<string, unknown>;
  /** The name of the step, with the number of the item if it is one. */
  step?: string | null | undefined;
  tags: string[];
  timeout_seconds?: Seconds | null | undefined;
  /** W3C trace context of who submitted it. */
  traceparent?: string | null | undefined;
  workflow_id?: string | null | undefined;
}

/** A definition in a list. */
export interface DefinitionLine {
  created_at: string;
  name: string;
  steps: number;
  version: string;
}

/** Definitions. */
export interface DefinitionList {
  definitions: DefinitionLine[];
}

/** A worker that leaves. */
export interface DeregisteredWorker {
  worker_id: string;
}

/** Whether an entity is registered. */
export interface Entity {
  /** Whether the request changed that. */
  changed?: boolean | null | undefined;
  entity: string;
  registered: boolean;
}

/** Registered entities, by name. */
export interface EntityList {
  entities: string[];
  /** Where to go on. */
  next_after?: string | null | undefined;
}

/** How long something took: one run, or many together. */
export interface Execution {
  average_seconds: number;
  /** How many steps a workflow has. */
  average_steps: number;
  /** In percent. */
  error_rate: number;
  errors: number;
  executions: number;
  last_at: string;
  max_seconds: number;
  min_seconds: number;
  /** The name of the definition. */
  name: string;
  namespace: string;
  step?: string | null | undefined;
  task?: string | null | undefined;
  version: string;
  workflow?: string | null | undefined;
}

/** What took longest. */
export interface Executions {
  slowest: Execution[];
}

/** Why a task is not running, for programs. */
export interface Explanation {
  /** What stands in the way; the first of it, if there is much. */
  blockers: Blocker[];
  /** How much stands in the way of a step. */
  blockers_total?: number | null | undefined;
  /** The reason in a sentence. */
  detail: string;
  /** The next moment at which something changes by itself, if one is known. */
  next_change_at?: string | null | undefined;
  /** What the history of the step says. */
  note?: string | null | undefined;
  /** A stable word. */
  reason: string;
  /** The name of the step. */
  step?: string | null | undefined;
  workflow_id?: string | null | undefined;
  workflow_paused?: boolean | null | undefined;
}

/** A worker says that it lives. */
export interface Heartbeat {
  /** Whether everything else that was claimed for it is to be given back: it never heard of it. */
  release_others?: boolean | undefined;
  /** What it works on. */
  running?: Lease[] | undefined;
  /** How long to wait for news of these, at most 60; not at all unless said. */
  wait_seconds?: number | null | undefined;
}

/** One row of a history. */
export interface HistoryEntry {
  actor?: string | null | undefined;
  at: string;
  from?: TaskState | null | undefined;
  note?: string | null | undefined;
  reason: string;
  seq: number;
  to: TaskState;
}

/** Who intervenes, and why. */
export interface Intervention {
  /** On whose behalf, for the history. */
  actor?: string | null | undefined;
  /** Why, for the history. */
  reason?: string | null | undefined;
}

/** How far the items of a step are. */
export interface Items {
  of: number;
  settled: number;
}

/** A concurrency key with a limit. */
export interface Lane {
  key: string;
  limit: number;
  strict: boolean;
}

/** A claim. */
export interface Lease {
  id: string;
  lease: number;
}

export interface LogLine {
  at: string;
  text: string;
}

/** A mistake in a definition. */
export interface Mistake {
  /** What to do about it. */
  advice: string;
  /** The column, from 1, if it is known. */
  column?: number | null | undefined;
  /** The line, from 1, if it is known. */
  line?: number | null | undefined;
  /** Where in the definition. */
  path: string;
  /** What is wrong. */
  problem: string;
}

/** At most `limit` tasks with this key are in progress at a time. */
export interface NewLane {
  key: string;
  limit: number;
  /** Whether a task that waits for a retry keeps its place. */
  strict?: boolean | undefined;
}

/** A line of a log. */
export interface NewLine {
  /** When it was written; now unless said. */
  at?: string | null | undefined;
  text: string;
}

/** How much is done, out of how much, and what is being done. */
export interface NewProgress {
  done: number;
  note?: string | null | undefined;
  total?: number | null | undefined;
}

/** When failed attempts are tried again. */
export interface NewRetryPolicy {
  backoff?: Backoff | null | undefined;
  /** The first delay; 1 unless said. */
  base_seconds?: number | null | undefined;
  /** No delay is longer; 60 unless said. */
  cap_seconds?: number | null | undefined;
  /** What exponential delays grow by; 2 unless said. */
  factor?: number | null | undefined;
  /** `none`, `full`, or a share such as `20%`. */
  jitter?: string | null | undefined;
}

/** A schedule to make, or to change. */
export interface NewSchedule {
  /** On whose behalf, for the audit. */
  actor?: string | null | undefined;
  /** The cron expression: minute, hour, day of month, month, day of week. */
  cron: string;
  /** What to do about slots that passed while nobody could fire them: `skip`, `one` (unless said) or `all:N`. */
  missed?: string | null | undefined;
  /** What to do when the task of the slot before is not over: `allow` (unless said), `skip`, `queue` or `replace`. */
  overlap?: string | null | undefined;
  /** Whether it begins paused. */
  paused?: boolean | undefined;
  /** Why, for the audit. */
  reason?: string | null | undefined;
  /** What it submits; without an id, a key, a start and a namespace of its own. */
  task: NewTask;
  /** The time zone that it is meant in; `UTC` unless said. */
  zone?: string | null | undefined;
}

/** A request for a task. Fields that it does not know are refused: they would be mistakes. */
export interface NewTask {
  /** How long until it may run. */
  delay_seconds?: number | null | undefined;
  /** What it acts on, written `type:id`: one task of an entity is in progress at a time. */
  entity?: string | null | undefined;
  /** Its id, if the caller made one: then it can be sent again without being submitted twice. */
  id?: string | null | undefined;
  /** While a task of this namespace and kind with this key exists, submitting it again answers with the first. */
  idempotency_key?: string | null | undefined;
  /** What finds the handler. */
  kind: string;
  lane?: NewLane | null | undefined;
  /** Attempts in all, 1 to 1,000,000, or `null` for no limit; default: 3. */
  max_attempts?: number | null | undefined;
  /** Whose it is; `default` unless said. */
  namespace?: string | null | undefined;
  on_conflict?: OnConflict | null | undefined;
  /** The handler's input, kept as it is sent; `null` unless said. */
  payload?: unknown | undefined;
  /** Higher first; 0 unless said. */
  priority?: number | null | undefined;
  /** The line of tasks it joins; `default` unless said. */
  queue?: string | null | undefined;
  /** Whether the entity must be registered. */
  require_entity?: boolean | undefined;
  retry?: NewRetryPolicy | null | undefined;
  /** When it may run, at the earliest. */
  run_at?: string | null | undefined;
  /** Words to find it by. */
  tags?: string[] | undefined;
  /** How long one attempt may take. */
  timeout_seconds?: number | null | undefined;
  /** What it is part of, a W3C trace context such as `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`; what the header says unless said. */
  traceparent?: string | null | undefined;
}

/** Tasks to submit together. */
export interface NewTasks {
  /** At most 1,000. */
  tasks: NewTask[];
}

/** A worker that registers. */
export interface NewWorker {
  /** How long it may be silent before others take its tasks, 1 to 3,600 s; 30 unless said. */
  dead_after_seconds?: number | null | undefined;
  hostname?: string | null | undefined;
  /** The kinds it has handlers for. */
  kinds: string[];
  /** Whose tasks it takes; `default` unless said. */
  namespace?: string | null | undefined;
  /** How many tasks it works on at once. */
  pool_size?: number | null | undefined;
  /** The queues it takes from; `default` unless said. */
  queues?: string[] | null | undefined;
  /** Whether steps that are workflows are started for it, which takes no handler; so it is unless said. */
  starts_workflows?: boolean | null | undefined;
  version?: string | null | undefined;
  /** Its identity, which must be fresh at every start. Default: made by the server. One that exists is replaced only with its secret. */
  worker_id?: string | null | undefined;
}

/** A workflow to start: of a definition that the store has, or with steps of its own. */
export interface NewWorkflow {
  /** What steps of its own have in common, as in a definition. */
  defaults?: unknown | undefined;
  /** The name of its definition; of steps of its own, how it is called. */
  definition?: string | null | undefined;
  /** Its id, if the caller made one: then it can be sent again without being started twice. */
  id?: string | null | undefined;
  /** While a workflow of this name with this key exists, starting it again answers with the first. */
  idempotency_key?: string | null | undefined;
  /** What expressions call `input`, kept as it is sent. */
  input?: unknown | undefined;
  /** Default: `default`. */
  namespace?: string | null | undefined;
  on_conflict?: OnWorkflowConflict | null | undefined;
  /** What a failure of steps of its own means, as in a definition. */
  on_failure?: string | null | undefined;
  /** Added to the priority of its steps. Default: 0. */
  priority?: number | null | undefined;
  /** The steps, as in a definition, if it is not of one that the store has. */
  steps?: Record<string, unknown> | null | undefined;
  /** What its steps are part of, a W3C trace context. Default: that of the header. */
  traceparent?: string | null | undefined;
  /** Default: the newest. */
  version?: string | null | undefined;
}

/** What to do about a key that exists: answer with its task, or refuse. */
export type OnConflict = "return" | "reject";

/** What to do about a key that exists. */
export type OnWorkflowConflict = "return" | "reject";

/** What became of a claim. */
export interface Outcome {
  /** How long until the next attempt, if it failed or snoozed. */
  delay_seconds?: number | null | undefined;
  /** What went wrong, if it failed; why, if it was cancelled or released. */
  error?: string | null | undefined;
  /** The task. */
  id: string;
  /** The proof of the claim. */
  lease: number;
  outcome: OutcomeWord;
  /** What the handler returned, kept as it is sent, if it completed; `null` unless said. */
  result?: unknown | undefined;
  /** Whether another attempt makes sense, if it failed; so it is unless said. */
  retryable?: boolean | null | undefined;
  /** When the handler was started, by the clock of who runs it. */
  started_at?: string | null | undefined;
}

/** How a handler ended: it did it, it failed, it asks for another time, it gives it back unfinished, or it found that it is not to be done. */
export type OutcomeWord = "completed" | "failed" | "snoozed" | "released" | "cancelled";

/** What became of claims. */
export interface Outcomes {
  /** At most 1,000. */
  outcomes: Outcome[];
}

/** A queue that was paused, or let go on. */
export interface PausedQueue {
  namespace: string;
  paused: boolean;
  queue: string;
}

/** A refusal, as `application/problem+json`. */
export interface Problem {
  /** A word that never changes its meaning, such as `task_not_found`; docs/http.md lists all of them. */
  code: string;
  /** What was wrong, and what would be accepted. */
  detail: string;
  /** Which one of a batch it is about, from 0. */
  index?: number | null | undefined;
  /** The mistakes of a definition, one by one. */
  problems?: Mistake[] | undefined;
  /** The HTTP status. */
  status: number;
  /** The status in words. */
  title: string;
}

export interface Progress {
  done: number;
  note?: string | null | undefined;
  total?: number | null | undefined;
}

/** What a worker must let go. */
export interface Pulse {
  /** Tasks that were cancelled: stop. */
  cancel: string[];
  /** Tasks that it does not hold any more: stop, and report nothing. */
  lost: string[];
}

/** What is known about a queue. */
export interface Queue {
  live_workers: number;
  namespace: string;
  paused: boolean;
  queue: string;
  /** How many tasks are in each state. */
  tasks: Record<string, number>;
}

/** Who intervenes, in which namespace, and why. */
export interface QueueIntervention {
  /** On whose behalf, for the audit. */
  actor?: string | null | undefined;
  /** `default` unless said. */
  namespace?: string | null | undefined;
  /** Why, for the audit. */
  reason?: string | null | undefined;
}

/** Queues. */
export interface QueueList {
  queues: Queue[];
}

/** A workflow that has steps which can be claimed. */
export interface ReadyWorkflow {
  computed_priority: number;
  ready_steps: number;
  workflow: Workflow;
}

/** Workflows that have steps which can be claimed. */
export interface ReadyWorkflows {
  workflows: ReadyWorkflow[];
}

/** Where a task is after an operator's command. */
export interface Receipt {
  changed: boolean;
  id: string;
  state: TaskState;
}

/** A worker that is registered. */
export interface RegisteredWorker {
  /** How long it may be silent before others take its tasks. */
  dead_after_seconds: Seconds;
  /** How often it is to say that it lives. */
  heartbeat_seconds: Seconds;
  worker_id: string;
  /** What proves that a caller is this worker: it goes with every later call, as the header `Windlass-Worker-Secret`. */
  worker_secret: string;
}

/** A schedule that was removed. */
export interface RemovedSchedule {
  name: string;
  namespace: string;
  removed: boolean;
}

/** How far an attempt is. */
export interface Report {
  /** Where the next attempt may go on; kept as it is sent. */
  checkpoint?: unknown | undefined;
  /** The number of the first of `lines`, counted from 0 within the attempt. */
  first_line?: number | undefined;
  /** The task. */
  id: string;
  /** The proof of the claim. */
  lease: number;
  /** Lines of the log, oldest first. */
  lines?: NewLine[] | undefined;
  progress?: NewProgress | null | undefined;
}

/** What became of one report. */
export interface ReportedOutcome {
  /** Whether it changed anything; not if it had been carried out before. */
  changed?: boolean | null | undefined;
  error?: Problem | null | undefined;
  id: string;
  /** Where the task is, if the report was accepted. */
  state?: TaskState | null | undefined;
}

/** What became of reports. */
export interface ReportedOutcomes {
  /** One for each, in order. */
  outcomes: ReportedOutcome[];
}

/** How far attempts are. */
export interface Reports {
  /** At most 1,000. */
  reports: Report[];
}

/** From which step a workflow is repeated. */
export interface Rerun {
  actor?: string | null | undefined;
  /** The first step that is done again. */
  from: string;
  reason?: string | null | undefined;
}

/** How a task is settled by hand. */
export interface Resolution {
  actor?: string | null | undefined;
  reason?: string | null | undefined;
  /** What it would have returned. */
  result?: unknown | undefined;
}

/** How a task is made to run again. */
export interface RetryRequest {
  actor?: string | null | undefined;
  /** Start over with all attempts, even if they are used up. */
  force?: boolean | undefined;
  reason?: string | null | undefined;
}

/** A retry policy. */
export interface RetryPolicy {
  backoff: string;
  base_seconds: Seconds;
  cap_seconds: Seconds;
  factor?: number | null | undefined;
  jitter: string;
}

/** A schedule. */
export interface Schedule {
  cron: string;
  error?: string | null | undefined;
  fired: number;
  last_at?: string | null | undefined;
  last_task_id?: string | null | undefined;
  last_task_state?: string | null | undefined;
  left_out?: string | null | undefined;
  missed: string;
  name: string;
  namespace: string;
  next_at?: string | null | undefined;
  overlap: string;
  paused: boolean;
  skipped: number;
  task: ScheduledTask;
  updated_at: string;
  zone: string;
}

/** Schedules. */
export interface ScheduleList {
  schedules: Schedule[];
}

/** What a schedule submits. */
export interface ScheduledTask {
  entity?: string | null | undefined;
  kind: string;
  lane?: Lane | null | undefined;
  max_attempts?: number | null | undefined;
  payload: Verbatim;
  priority: number;
  queue: string;
  require_entity: boolean;
  retry: RetryPolicy;
  tags: string[];
  timeout_seconds?: Seconds | null | undefined;
}

export type Seconds = number;

/** Whether a server lives. */
export interface ServerHealth {
  /** `healthy`. */
  status: string;
  /** Of the program. */
  version: string;
}

/** Whether a server can do its work. */
export interface ServerReadiness {
  /** `ready`. */
  status: string;
}

/** A workflow that rests for too long, or nearly. */
export interface StaleWorkflow {
  allowed_seconds: number;
  /** `stale`, or `warning` from 80 % on. */
  level: string;
  name: string;
  namespace: string;
  rested_seconds: number;
  state: string;
  workflow: string;
}

/** Workflows that rest for too long, or nearly. */
export interface StaleWorkflows {
  stale: StaleWorkflow[];
}

/** The answer to the start of a workflow. */
export interface StartedWorkflow {
  created: boolean;
  id: string;
  state: WorkflowState;
}

/** How many tasks and workflows are where. */
export interface Stats {
  counts: TaskCount[];
  /** Tasks by state. */
  states: Record<string, number>;
  /** All tasks. */
  tasks: number;
  workflows: WorkflowCount[];
}

/** A step, or an item of one. */
export interface Step {
  attempt: number;
  blocking_reason?: string | null | undefined;
  due_at?: string | null | undefined;
  error?: string | null | undefined;
  finished_at?: string | null | undefined;
  id: string;
  items?: Items | null | undefined;
  kind: string;
  level: number;
  max_attempts?: number | null | undefined;
  name: string;
  queue: string;
  started_at?: string | null | undefined;
  state: TaskState;
  /** The first of those that it waits for. */
  waiting_for: UnmetStep[];
  waiting_for_total: number;
}

/** How many of a workflow's tasks are where. */
export interface StepCounts {
  active: number;
  cancelled: number;
  done: number;
  failed: number;
  nested: number;
  skipped: number;
  timed: number;
  total: number;
  waiting: number;
}

/** A definition with all it says. */
export interface StoredDefinition {
  created_at: string;
  definition: unknown;
  name: string;
  namespace: string;
  version: string;
}

/** The answer to a submit. */
export interface SubmittedTask {
  created: boolean;
  id: string;
  state: TaskState;
}

/** The answers to tasks that were submitted together, in their order. */
export interface SubmittedTasks {
  tasks: SubmittedTask[];
}

/** A task without payload, result and history. */
export interface Task {
  attempt: number;
  claimed_at?: string | null | undefined;
  created_at: string;
  due_at?: string | null | undefined;
  entity?: string | null | undefined;
  error?: string | null | undefined;
  finished_at?: string | null | undefined;
  id: string;
  idempotency_key?: string | null | undefined;
  kind: string;
  lane?: Lane | null | undefined;
  lease: number;
  max_attempts?: number | null | undefined;
  namespace: string;
  priority: number;
  queue: string;
  retry: RetryPolicy;
  started_at?: string | null | undefined;
  state: TaskState;
  tags: string[];
  timeout_seconds?: Seconds | null | undefined;
  /** What it is part of: a W3C trace context. */
  traceparent?: string | null | undefined;
  updated_at: string;
  worker_id?: string | null | undefined;
  workflow_id?: string | null | undefined;
}

/** How many tasks of one sort are in one state. */
export interface TaskCount {
  /** Whether they are steps of workflows. */
  is_step: boolean;
  kind: string;
  namespace: string;
  queue: string;
  state: TaskState;
  tasks: number;
}

/** A change of a task (`event: task`). */
export interface TaskEvent {
  at: string;
  attempt: number;
  id: string;
  kind: string;
  namespace: string;
  queue: string;
  /** Where it is then. */
  state: string;
  workflow_id?: string | null | undefined;
}

/** A page of tasks. */
export interface TaskList {
  /** Where to go on; a page may be short and still have one. */
  next_cursor?: string | null | undefined;
  /** Without payloads, results and histories. */
  tasks: Task[];
}

/** The logs of a task's attempts. */
export interface TaskLog {
  attempts: AttemptLog[];
  id: string;
}

/** A task with everything that belongs to it. */
export interface TaskRecord extends Task {
  attempts: Attempt[];
  history: HistoryEntry[];
  payload: Verbatim;
  result: unknown;
  step?: string | null | undefined;
}

/** A step that another waits for. */
export interface UnmetStep {
  state: TaskState;
  step: string;
}

export type Verbatim = unknown;

/** One worker. */
export interface WorkerInfo {
  alive: boolean;
  dead_after_seconds: Seconds;
  heartbeat_at: string;
  hostname: string;
  kinds: string[];
  leader: boolean;
  namespace: string;
  pool_size: number;
  queues: string[];
  started_at: string;
  version: string;
  worker_id: string;
}

/** Registered workers. */
export interface WorkerList {
  workers: WorkerInfo[];
}

/** A workflow without input, steps and history. */
export interface Workflow {
  counts: StepCounts;
  created_at: string;
  definition: string;
  finished_at?: string | null | undefined;
  id: string;
  idempotency_key?: string | null | undefined;
  namespace: string;
  origin_id?: string | null | undefined;
  parent_task_id?: string | null | undefined;
  parent_workflow_id?: string | null | undefined;
  paused: boolean;
  priority: number;
  state: WorkflowState;
  updated_at: string;
  /** Null if the definition belongs to this workflow alone. */
  version?: string | null | undefined;
}

/** How many workflows of one name are in one state. */
export interface WorkflowCount {
  name: string;
  namespace: string;
  state: WorkflowState;
  workflows: number;
}

/** A change of a workflow (`event: workflow`). */
export interface WorkflowEvent {
  at: string;
  definition: string;
  id: string;
  namespace: string;
  /** Where it is then. */
  state: string;
}

/** One row of a history. */
export interface WorkflowHistoryEntry {
  actor?: string | null | undefined;
  at: string;
  from?: WorkflowState | null | undefined;
  note?: string | null | undefined;
  seq: number;
  to: WorkflowState;
}

/** A page of workflows. */
export interface WorkflowList {
  /** Where to go on; a page may be short and still have one. */
  next_cursor?: string | null | undefined;
  workflows: Workflow[];
}

/** A workflow with its steps and everything else that belongs to it. */
export interface WorkflowRecord extends Workflow {
  completion_percentage: number;
  execution_status: string;
  health_status: string;
  history: WorkflowHistoryEntry[];
  input: Verbatim;
  output?: Record<string, unknown> | null | undefined;
  ready_steps: number;
  recommended_action: string;
  steps: Step[];
  steps_left_out: number;
  total_steps: number;
}
