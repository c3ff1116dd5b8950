// Writes the types of the contract, `src/wire.ts`, from `../openapi.json`: one interface for each schema, in the order of
// their names. With `--check` it writes nothing and ends with 1 if the file is not what it would write; a test asks for that.
//
// What it does not do: routes. Those are methods of the client, and written by hand.
import { readFileSync, writeFileSync } from "node:fs";

const CONTRACT = new URL("../../openapi.json", import.meta.url);
const TARGET = new URL("../src/wire.ts", import.meta.url);

/** Schemas whose names are taken by something else in this package. */
const RENAMED = { Worker: "WorkerInfo", Retry: "RetryRequest" };

/** Properties that the contract calls a string, and which are one of a few words. */
const WORDS = {
  TaskState: ["Task.state", "Receipt.state", "SubmittedTask.state", "Step.state", "TaskCount.state", "Ancestor.state",
    "UnmetStep.state", "ReportedOutcome.state", "HistoryEntry.to", "HistoryEntry.from"],
  WorkflowState: ["Workflow.state", "StartedWorkflow.state", "WorkflowCount.state", "WorkflowHistoryEntry.to",
    "WorkflowHistoryEntry.from"],
};

const HEAD = `// The types of the contract, written by \`npm run wire\` from clients/openapi.json: what goes over the wire has these
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
`;

const named = (name) => RENAMED[name] ?? name;

/** The type of a schema, as it is written. */
function type(schema, place) {
  if (schema.$ref) return named(schema.$ref.split("/").at(-1));
  const either = schema.oneOf ?? schema.anyOf;
  if (either) return either.map((one) => type(one, place)).join(" | ");
  if (schema.enum) return schema.enum.map((word) => JSON.stringify(word)).join(" | ");
  const kinds = [schema.type ?? "unknown"].flat();
  const word = Object.keys(WORDS).find((name) => WORDS[name].includes(place));
  return kinds.map((kind) => {
    switch (kind) {
      case "string": return word ?? "string";
      case "integer": return "number";
      case "array": return `${bracketed(type(schema.items ?? {}, place))}[]`;
      case "object": return object(schema, place);
      default: return kind;
    }
  }).join(" | ");
}

const bracketed = (text) => (text.includes("|") ? `(${text})` : text);

function object(schema, place) {
  if (schema.properties) return `{\n${properties(schema, place)}}`;
  const values = schema.additionalProperties;
  return `Record<string, ${values && typeof values === "object" ? type(values, place) : "unknown"}>`;
}

function comment(text, indent) {
  return text ? `${indent}/** ${text.replace(/\s*\n+\s*/g, " ")} */\n` : "";
}

function properties(schema, place) {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties).map(([name, property]) => {
    const written = type(property, `${place}.${name}`);
    const line = required.has(name) ? `${name}: ${written};` : `${name}?: ${written} | undefined;`;
    return `${comment(property.description, "  ")}  ${line}\n`;
  }).join("");
}

function declaration(name, schema) {
  const head = `\n${comment(schema.description, "")}`;
  if (schema.allOf) {
    const bases = schema.allOf.filter((part) => part.$ref).map((part) => type(part));
    const own = schema.allOf.find((part) => part.properties);
    return `${head}export interface ${named(name)} extends ${bases.join(", ")} {\n${properties(own, name)}}\n`;
  }
  if (schema.properties) return `${head}export interface ${named(name)} {\n${properties(schema, name)}}\n`;
  return `${head}export type ${named(name)} = ${type(schema, name)};\n`;
}

const { schemas } = JSON.parse(readFileSync(CONTRACT, "utf8")).components;
const names = Object.keys(schemas).sort();
const text = HEAD + names.map((name) => declaration(name, schemas[name])).join("");
if (!process.argv.includes("--check")) {
  writeFileSync(TARGET, text);
} else if (readFileSync(TARGET, "utf8") !== text) {
  console.error("src/wire.ts is not what clients/openapi.json says; run `npm run wire`");
  process.exitCode = 1;
}
