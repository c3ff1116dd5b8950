/**
 * Tasks: submitting them, looking at them, stepping in.
 *
 * A submit may be repeated without harm, because the id is chosen here before it is sent.
 */
import { part, type Query } from "./calls.js";
import { ConflictError, NotFoundError } from "./errors.js";
import { EventCalls, type WaitOptions } from "./events.js";
import { taskId } from "./uuid.js";
import type {
  Explanation, Intervention, NewTask, Receipt, Resolution, RetryRequest, SubmittedTask, SubmittedTasks, Task, TaskList,
  TaskLog, TaskRecord, TaskState,
} from "./wire.js";

/** A task to submit, with what its kind expects as payload. */
export type TaskToSubmit<Payload = unknown> = Omit<NewTask, "payload"> & { payload?: Payload };

/** A task with everything that belongs to it, and with what its kind returns as result. */
export type TaskWith<Result = unknown> = TaskRecord & { result?: Result | null | undefined };

/** Which tasks to list. Everything that is said must hold. */
export interface TaskFilter {
  state?: TaskState | readonly TaskState[] | undefined;
  kind?: string | undefined;
  queue?: string | undefined;
  /** All of them, if none is said. */
  namespace?: string | undefined;
  /** Written `type:id`. */
  entity?: string | undefined;
  workflow?: string | undefined;
  tag?: string | undefined;
  /** Held by this worker, or last held by it. */
  worker?: string | undefined;
  updated_before?: string | undefined;
  oldest_first?: boolean | undefined;
  /** How many to ask for at a time; 100 unless said. */
  limit?: number | undefined;
}

/** States that a task does not leave by itself. */
export const FINAL_TASK_STATES: readonly TaskState[] =
  ["completed", "failed", "dead_letter", "cancelled", "skipped", "resolved_manually"];

export class TaskCalls extends EventCalls {
  /** Submits a task. It is durable when this comes; a key that exists answers with the task that has it. */
  async submit<Payload = unknown>(task: TaskToSubmit<Payload>): Promise<SubmittedTask> {
    const [submitted] = await this.#submit([task], async ([only], onRepeat) => {
      const options = { body: only, repeated: true, onRepeat };
      return [await this.call<SubmittedTask>("POST", "/v1/tasks", options)];
    });
    return submitted!;
  }

  /** Submits up to 1,000 tasks: all of them or none. The answers are in their order. */
  async submitMany<Payload = unknown>(tasks: readonly TaskToSubmit<Payload>[]): Promise<SubmittedTask[]> {
    return this.#submit(tasks, async (tasks, onRepeat) => {
      const options = { body: { tasks }, repeated: true, onRepeat };
      return (await this.call<SubmittedTasks>("POST", "/v1/tasks/batch", options)).tasks;
    });
  }

  /** A task with payload, result and history. */
  task<Result = unknown>(id: string): Promise<TaskWith<Result>> {
    return this.call("GET", `/v1/tasks/${part(id)}`);
  }

  /** The task that has an idempotency key. */
  taskByKey<Result = unknown>(kind: string, key: string): Promise<TaskWith<Result>> {
    return this.call("GET", "/v1/tasks/by-key", { query: { kind, key, namespace: this.namespace } });
  }

  /** Tasks, newest first, without payloads and results: page after page, as they are asked for. */
  async *tasks(filter: TaskFilter = {}): AsyncGenerator<Task, void, void> {
    let cursor: string | null | undefined;
    do {
      const page: TaskList = await this.call("GET", "/v1/tasks", { query: { ...filter, cursor } as Query });
      yield* page.tasks;
      cursor = page.next_cursor;
    } while (cursor);
  }

  /** Waits until a task is final, however it ended, and gives it. */
  wait<Result = unknown>(id: string, options: WaitOptions = {}): Promise<TaskWith<Result>> {
    const look = (signal: AbortSignal) => this.call<TaskWith<Result>>("GET", `/v1/tasks/${part(id)}`, { signal });
    const over = (task: TaskRecord) => FINAL_TASK_STATES.includes(task.state);
    return this.until(`task ${id}`, { task: id, state: FINAL_TASK_STATES }, look, over, options);
  }

  /** Why a task is not running. */
  why(id: string): Promise<Explanation> {
    return this.call("GET", `/v1/tasks/${part(id)}/why`);
  }

  /** What the attempts of a task have logged. */
  log(id: string): Promise<TaskLog> {
    return this.call("GET", `/v1/tasks/${part(id)}/log`);
  }

  /** Stops a task, wherever it is. A handler that runs it is told. */
  cancel(id: string, by: Intervention = {}): Promise<Receipt> {
    return this.call("POST", `/v1/tasks/${part(id)}/cancel`, { body: by, repeated: true });
  }

  /** Lets a task run now: a failed, dead or cancelled one again, a waiting one without its delay. */
  retry(id: string, how: RetryRequest = {}): Promise<Receipt> {
    return this.call("POST", `/v1/tasks/${part(id)}/retry`, { body: how });
  }

  /** Settles a task by hand, with what it would have returned. */
  resolve(id: string, how: Resolution = {}): Promise<Receipt> {
    return this.call("POST", `/v1/tasks/${part(id)}/resolve`, { body: how });
  }

  /** Deletes a task that is final, with its history and its key. */
  delete(id: string, by: Intervention = {}): Promise<Receipt> {
    return this.call("DELETE", `/v1/tasks/${part(id)}`, { query: { ...by }, repeated: false });
  }

  async #submit(
    given: readonly TaskToSubmit[],
    send: (tasks: NewTask[], onRepeat: () => void) => Promise<SubmittedTask[]>,
  ): Promise<SubmittedTask[]> {
    const tasks = given.map((task) => this.#named(task));
    const find = async () => {
      const found: SubmittedTask[] = [];
      for (const task of tasks) found.push(await this.#found(task));
      return found;
    };
    const [submitted, repeated] = await sentOnce((onRepeat) => send(tasks, onRepeat), find);
    // An id that was made here is nobody else's: if it existed when it was sent again, the first time was heard.
    const isOurs = (id: string, index: number) => repeated && !given[index]?.id && id === tasks[index]?.id;
    return submitted.map((one, index) => (isOurs(one.id, index) ? { ...one, created: true } : one));
  }

  #named(task: TaskToSubmit): NewTask {
    const namespace = task.namespace ?? this.namespace;
    return { ...task, id: task.id ?? taskId(), ...(namespace && { namespace }) };
  }

  /** The task that came of a submit. */
  async #found(task: NewTask): Promise<SubmittedTask> {
    const path = `/v1/tasks/${part(task.id ?? "")}`;
    const { idempotency_key: key, kind, namespace } = task;
    const found = await this.call<TaskRecord>("GET", path).catch((error: unknown) => {
      if (!key || !(error instanceof NotFoundError)) throw error;
      return this.call<TaskRecord>("GET", "/v1/tasks/by-key", { query: { kind, key, namespace } });
    });
    return { id: found.id, state: found.state, created: false };
  }
}

/**
 * Sends something that may arrive several times and names what it makes; gives the answer, and whether it was sent again. If it is refused because what it
 * names exists, it was heard the first time, and `find` gives what came of it; if that finds nothing, the refusal is meant.
 */
export async function sentOnce<T>(send: (onRepeat: () => void) => Promise<T>, find: () => Promise<T>): Promise<[T, boolean]> {
  let repeated = false;
  try {
    return [await send(() => (repeated = true)), repeated];
  } catch (error) {
    if (!repeated || !(error instanceof ConflictError)) throw error;
    const found = await find().catch((missing: unknown) => {
      throw missing instanceof NotFoundError ? error : missing;
    });
    return [found, true];
  }
}
