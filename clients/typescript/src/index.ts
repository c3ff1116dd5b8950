/** The client and the worker of Windlass, a durable task queue and workflow engine. */
export { Client, type WorkOptions } from "./client.js";
export type { CallOptions, ClientOptions, Query } from "./calls.js";
export {
  ConflictError, ConnectionLostError, NotFoundError, RefusedError, UnauthorisedError, UnavailableError, WaitTimeoutError, WindlassError,
} from "./errors.js";
export type { EventFilter, EventOptions, ResetEvent, TaskEvent, WaitOptions, WindlassEvent, WorkflowEvent } from "./events.js";
export { FINAL_TASK_STATES, type TaskFilter, type TaskToSubmit, type TaskWith } from "./tasks.js";
export { SETTLED_WORKFLOW_STATES, type WorkflowDepth, type WorkflowFilter } from "./workflows.js";
export { taskId, workflowId } from "./uuid.js";
export { VERSION } from "./version.js";
export type * from "./wire.js";
export { Context } from "./worker/context.js";
export type { Handler } from "./worker/attempt.js";
export { Cancel, Fail, Retry, Snooze } from "./worker/outcome.js";
export { Worker, type WorkerOptions } from "./worker/worker.js";
