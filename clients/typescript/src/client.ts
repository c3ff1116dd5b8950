/** The client: everything that can be asked of a server. Thin: what is asked, how it is written, and nothing of what it means. */
import { part, secretHeader } from "./calls.js";
import { workerSecret } from "./uuid.js";
import { WorkflowCalls } from "./workflows.js";
import type {
  ClaimRequest, ClaimResponse, DeregisteredWorker, Heartbeat, Intervention, NewSchedule, NewWorker, Outcome, PausedQueue, Pulse,
  Queue, QueueList, RegisteredWorker, RemovedSchedule, Report, ReportedOutcome, ReportedOutcomes, Schedule, ScheduleList, Stats,
  SubmittedTask, WorkerInfo, WorkerList,
} from "./wire.js";

/** What the calls of a worker take beside their body. */
export interface WorkOptions {
  /** The worker's secret, for programs that keep it themselves. The client knows it if it has registered the worker. */
  secret?: string | undefined;
  signal?: AbortSignal | undefined;
}

/** A client of a Windlass server. It may be shared by everything in a process. */
export class Client extends WorkflowCalls {
  /** The secrets of the workers that were registered here. */
  readonly #secrets = new Map<string, string>();

  /** Queues with their numbers of tasks. */
  async queues(options: { namespace?: string } = {}): Promise<Queue[]> {
    return (await this.call<QueueList>("GET", "/v1/queues", { query: options })).queues;
  }

  /** Lets nobody claim from a queue until it is resumed. */
  pauseQueue(name: string, by: Intervention = {}): Promise<PausedQueue> {
    return this.call("POST", `/v1/queues/${part(name)}/pause`, { body: { namespace: this.namespace, ...by }, repeated: true });
  }

  resumeQueue(name: string, by: Intervention = {}): Promise<PausedQueue> {
    return this.call("POST", `/v1/queues/${part(name)}/resume`, { body: { namespace: this.namespace, ...by }, repeated: true });
  }

  /** Schedules of all namespaces, unless one is named. */
  async schedules(options: { namespace?: string } = {}): Promise<Schedule[]> {
    return (await this.call<ScheduleList>("GET", "/v1/schedules", { query: options })).schedules;
  }

  schedule(name: string): Promise<Schedule> {
    return this.call("GET", `/v1/schedules/${part(name)}`, { query: { namespace: this.namespace } });
  }

  /** Makes a schedule, or changes it. */
  setSchedule(name: string, schedule: NewSchedule): Promise<Schedule> {
    const task = { namespace: this.namespace, ...schedule.task };
    const body = { ...schedule, task };
    return this.call("PUT", `/v1/schedules/${part(name)}`, { body, query: { namespace: this.namespace } });
  }

  removeSchedule(name: string, by: Intervention = {}): Promise<RemovedSchedule> {
    return this.call("DELETE", `/v1/schedules/${part(name)}`, { query: { namespace: this.namespace, ...by } });
  }

  /** Submits now what a schedule would submit. */
  runSchedule(name: string, by: Intervention = {}): Promise<SubmittedTask> {
    return this.call("POST", `/v1/schedules/${part(name)}/run`, { body: by, query: { namespace: this.namespace } });
  }

  pauseSchedule(name: string, by: Intervention = {}): Promise<Schedule> {
    const options = { body: by, query: { namespace: this.namespace }, repeated: true };
    return this.call("POST", `/v1/schedules/${part(name)}/pause`, options);
  }

  resumeSchedule(name: string, by: Intervention = {}): Promise<Schedule> {
    const options = { body: by, query: { namespace: this.namespace }, repeated: true };
    return this.call("POST", `/v1/schedules/${part(name)}/resume`, options);
  }

  /** Registered workers: which are alive, which one leads, and what they take. */
  async workers(options: { namespace?: string } = {}): Promise<WorkerInfo[]> {
    return (await this.call<WorkerList>("GET", "/v1/workers", { query: options })).workers;
  }

  /** How many tasks and workflows are where. */
  stats(options: { namespace?: string } = {}): Promise<Stats> {
    return this.call("GET", "/v1/stats", { query: options });
  }

  /** Whether the server lives. Asked once. */
  health(): Promise<{ status: string; version: string }> {
    return this.call("GET", "/health", { tries: 1 });
  }

  /** Whether the server can do its work: its store can be reached and written to. If not, it is an `UnavailableError`. Asked once. */
  ready(): Promise<{ status: string }> {
    return this.call("GET", "/ready", { tries: 1 });
  }

  /**
   * Registers a worker. Workers that are made of handlers do this and what follows by themselves: see `Worker`. An id that exists is refused without its
   * secret; the secret of a new one is made here if the id is given, so that it can be registered again if the answer is lost.
   */
  async register(worker: NewWorker, options: WorkOptions = {}): Promise<RegisteredWorker> {
    const { worker_id: id, namespace = this.namespace } = worker;
    const body = { ...worker, ...(namespace && { namespace }) };
    if (id && !options.secret && !this.#secrets.has(id)) this.#secrets.set(id, workerSecret());
    const call = { body, repeated: Boolean(id), ...this.#as(id ?? "", options) };
    const registered = await this.call<RegisteredWorker>("POST", "/v1/workers", call);
    this.#secrets.set(registered.worker_id, registered.worker_secret);
    return registered;
  }

  /** The options of a call that a worker makes. */
  #as(worker: string, { secret = this.#secrets.get(worker), signal }: WorkOptions) {
    return { headers: secretHeader(secret), signal };
  }

  /** Claims tasks, and reports what became of earlier ones. Never repeated by itself: what an answer that was lost gave is not known. */
  claim(worker: string, request: ClaimRequest = {}, options: WorkOptions = {}): Promise<ClaimResponse> {
    const waitSeconds = request.wait_seconds ?? 0;
    return this.call("POST", `/v1/workers/${part(worker)}/claim`, { body: request, waitSeconds, ...this.#as(worker, options) });
  }

  /** Keeps all leases of a worker alive, and tells what it must let go. */
  heartbeat(worker: string, beat: Heartbeat = {}, options: WorkOptions = {}): Promise<Pulse> {
    const waitSeconds = beat.wait_seconds ?? 0;
    const call = { body: beat, waitSeconds, repeated: !beat.release_others, ...this.#as(worker, options) };
    return this.call("POST", `/v1/workers/${part(worker)}/heartbeat`, call);
  }

  /** Reports what became of claims. The same again is accepted again, and changes nothing. */
  async finish(worker: string, outcomes: readonly Outcome[], options: WorkOptions = {}): Promise<ReportedOutcome[]> {
    const call = { body: { outcomes }, repeated: true, ...this.#as(worker, options) };
    return (await this.call<ReportedOutcomes>("POST", `/v1/workers/${part(worker)}/finish`, call)).outcomes;
  }

  /** Tells how far attempts are. */
  async report(worker: string, reports: readonly Report[], options: WorkOptions = {}): Promise<ReportedOutcome[]> {
    const call = { body: { reports }, repeated: true, ...this.#as(worker, options) };
    return (await this.call<ReportedOutcomes>("POST", `/v1/workers/${part(worker)}/report`, call)).outcomes;
  }

  /** Forgets a worker: what it still holds goes to others. */
  deregister(worker: string, options: WorkOptions = {}): Promise<DeregisteredWorker> {
    return this.call("DELETE", `/v1/workers/${part(worker)}`, this.#as(worker, options));
  }
}
