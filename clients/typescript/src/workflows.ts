/** Workflows: definitions, starting, looking, stepping in. What a definition means is the server's business: it is sent as it is given. */
import { part, type Query } from "./calls.js";
import type { WaitOptions } from "./events.js";
import { sentOnce, TaskCalls } from "./tasks.js";
import { workflowId } from "./uuid.js";
import type {
  Ancestor, Ancestors, AppliedDefinition, DefinitionLine, DefinitionList, Intervention, NewWorkflow, Receipt, Rerun, Resolution,
  RetryRequest, StartedWorkflow, StoredDefinition, Workflow, WorkflowList, WorkflowRecord, WorkflowState,
} from "./wire.js";

/** Which workflows to list. Everything that is said must hold. */
export interface WorkflowFilter {
  state?: WorkflowState | readonly WorkflowState[] | undefined;
  /** Of the definition with this name. */
  definition?: string | undefined;
  /** All of them, if none is said. */
  namespace?: string | undefined;
  /** Those that this task is. */
  parent?: string | undefined;
  oldest_first?: boolean | undefined;
  /** How many to ask for at a time; 100 unless said. */
  limit?: number | undefined;
}

/** How much of a large workflow is told. */
export interface WorkflowDepth {
  /** So many steps at most; 1,000 unless said. */
  steps?: number | undefined;
  /** So many items of a step at most; 10 unless said. */
  items?: number | undefined;
}

/** States in which nothing more happens by itself: the final ones, and being blocked by failures. */
export const SETTLED_WORKFLOW_STATES: readonly WorkflowState[] =
  ["complete", "error", "cancelled", "resolved_manually", "blocked_by_failures"];

export class WorkflowCalls extends TaskCalls {
  /**
   * Keeps a definition: YAML or JSON text, or an object. The same content gives the same version.
   *
   * The name is read from the definition; say it beside one in YAML whose name is not plainly written.
   */
  async define(definition: string | object, options: { name?: string } & Intervention = {}): Promise<AppliedDefinition> {
    const text = typeof definition === "string" ? definition : JSON.stringify(definition);
    const { name = nameOf(definition), ...by } = options;
    const type = typeof definition === "string" ? "application/yaml" : "application/json";
    const query = { namespace: this.namespace, ...by };
    return JSON.parse(await this.text("PUT", `/v1/definitions/${part(name)}`, { query }, text, type)) as AppliedDefinition;
  }

  /** A definition with all it says: the newest version, unless one is named. */
  definition(name: string, version?: string): Promise<StoredDefinition> {
    return this.call("GET", `/v1/definitions/${part(name)}`, { query: { namespace: this.namespace, version } });
  }

  /** The newest version of each definition; of a name, all versions, oldest first. */
  async definitions(name?: string): Promise<DefinitionLine[]> {
    const path = name === undefined ? "/v1/definitions" : `/v1/definitions/${part(name)}/versions`;
    return (await this.call<DefinitionList>("GET", path, { query: { namespace: this.namespace } })).definitions;
  }

  /** Starts a workflow: of a `definition` that the server has, or with `steps` of its own. It is durable when this comes. */
  async start(workflow: NewWorkflow): Promise<StartedWorkflow> {
    const namespace = workflow.namespace ?? this.namespace;
    const body = { ...workflow, id: workflow.id ?? workflowId(), ...(namespace && { namespace }) };
    const [started, repeated] = await sentOnce<StartedWorkflow>(
      (onRepeat) => this.call("POST", "/v1/workflows", { body, repeated: true, onRepeat }),
      async () => ({ ...(await this.workflow(body.id, { steps: 0 })), created: false }),
    );
    const { id, state, created } = started;
    return { id, state, created: created || (repeated && !workflow.id && id === body.id) };
  }

  /** A workflow with its steps, its output if it has ended well, and its history. */
  workflow(id: string, depth: WorkflowDepth = {}): Promise<WorkflowRecord> {
    return this.call("GET", `/v1/workflows/${part(id)}`, { query: { ...depth } });
  }

  /** Workflows, newest first: page after page, as they are asked for. */
  async *workflows(filter: WorkflowFilter = {}): AsyncGenerator<Workflow, void, void> {
    let cursor: string | null | undefined;
    do {
      const page: WorkflowList = await this.call("GET", "/v1/workflows", { query: { ...filter, cursor } as Query });
      yield* page.workflows;
      cursor = page.next_cursor;
    } while (cursor);
  }

  /** Waits until a workflow is over, or is blocked by failures and waits for an operator, and gives it. */
  waitForWorkflow(id: string, options: WaitOptions = {}): Promise<WorkflowRecord> {
    const look = (signal: AbortSignal) => this.call<WorkflowRecord>("GET", `/v1/workflows/${part(id)}`, { signal });
    const over = (workflow: WorkflowRecord) => SETTLED_WORKFLOW_STATES.includes(workflow.state);
    return this.until(`workflow ${id}`, { workflow: id, state: SETTLED_WORKFLOW_STATES }, look, over, options);
  }

  /** The picture of a workflow: SVG, or text for Mermaid. */
  graph(id: string, format: "svg" | "mermaid" = "svg"): Promise<string> {
    return this.text("GET", `/v1/workflows/${part(id)}/graph.${format === "svg" ? "svg" : "mmd"}`, {});
  }

  /** Stops a workflow and everything that runs for it. */
  cancelWorkflow(id: string, by: Intervention = {}): Promise<Workflow> {
    return this.#steer(id, "cancel", by);
  }

  /** Lets a workflow start nothing more until it is resumed. */
  pauseWorkflow(id: string, by: Intervention = {}): Promise<Workflow> {
    return this.#steer(id, "pause", by);
  }

  resumeWorkflow(id: string, by: Intervention = {}): Promise<Workflow> {
    return this.#steer(id, "resume", by);
  }

  /** Settles a workflow by hand. */
  resolveWorkflow(id: string, by: Intervention = {}): Promise<Workflow> {
    return this.#steer(id, "resolve", by);
  }

  /** Ends a workflow that is blocked by failures as failed. */
  giveUpWorkflow(id: string, by: Intervention = {}): Promise<Workflow> {
    return this.#steer(id, "give-up", by);
  }

  /** Repeats a workflow from a step on, as a new one that knows its origin. */
  rerunWorkflow(id: string, how: Rerun): Promise<StartedWorkflow> {
    return this.call("POST", `/v1/workflows/${part(id)}/rerun`, { body: how });
  }

  /** Lets a step run again. */
  retryStep(id: string, step: string, how: RetryRequest = {}): Promise<Receipt> {
    return this.#step(id, step, "retry", how);
  }

  /** Settles a step by hand: for those that need it, it is done. */
  resolveStep(id: string, step: string, how: Resolution = {}): Promise<Receipt> {
    return this.#step(id, step, "resolve", how);
  }

  skipStep(id: string, step: string, by: Intervention = {}): Promise<Receipt> {
    return this.#step(id, step, "skip", by);
  }

  cancelStep(id: string, step: string, by: Intervention = {}): Promise<Receipt> {
    return this.#step(id, step, "cancel", by);
  }

  /** The steps that come before one, with what they returned. */
  async ancestors(id: string, step: string): Promise<Ancestor[]> {
    return (await this.call<Ancestors>("GET", `/v1/workflows/${part(id)}/steps/${part(step)}/ancestors`)).ancestors;
  }

  #steer(id: string, verb: string, body: Intervention): Promise<Workflow> {
    return this.call("POST", `/v1/workflows/${part(id)}/${verb}`, { body });
  }

  #step(id: string, step: string, verb: string, body: object): Promise<Receipt> {
    return this.call("POST", `/v1/workflows/${part(id)}/steps/${part(step)}/${verb}`, { body });
  }
}

/** The name that a definition gives itself. */
function nameOf(definition: string | object): string {
  const given = typeof definition === "string" ? inText(definition) : (definition as { name?: unknown }).name;
  if (typeof given === "string" && given !== "") return given;
  throw new TypeError("the definition has no `name` that can be seen; write one, or say it as `define(definition, { name })`");
}

function inText(text: string): unknown {
  if (text.trimStart().startsWith("{")) {
    try {
      return (JSON.parse(text) as { name?: unknown }).name;
    } catch {
      // YAML that looks like JSON: the name has to be said.
    }
  }
  const [, quoted, single, plain] = /^name[ \t]*:[ \t]*(?:"([^"\n]*)"|'([^'\n]*)'|([^\s#]+))/m.exec(text) ?? [];
  return quoted ?? single ?? plain;
}
