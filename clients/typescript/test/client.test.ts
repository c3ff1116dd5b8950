import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import {
  Client, ConflictError, ConnectionLostError, NotFoundError, RefusedError, type Task, UnauthorisedError, UnavailableError, WaitTimeoutError,
} from "windlass";
import { Server, until, worker } from "./kit.js";

async function all<T>(from: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of from) found.push(one);
  return found;
}

/** Claims one task and reports on it. */
async function end(client: Client, me: string, outcome: "completed" | "failed", more: object = {}): Promise<void> {
  const { tasks } = await client.claim(me, { wait_seconds: 20 });
  const [task] = tasks;
  assert.ok(task);
  const [answer] = await client.finish(me, [{ id: task.id, lease: task.lease, outcome, ...more }]);
  assert.equal(answer?.changed, true);
}

async function client(t: TestContext): Promise<Client> {
  return (await Server.start(t)).client();
}

test("a task keeps everything that it is given", async (t) => {
  const windlass = await client(t);
  const at = "2100-01-01T00:00:00Z";
  const { id, state, created } = await windlass.submit({
    kind: "mail:send", payload: { to: "ada" }, namespace: "tenant", queue: "mail", priority: 7, max_attempts: null, idempotency_key: "k",
    retry: { backoff: "linear", base_seconds: 2, cap_seconds: 9, jitter: "20%" }, lane: { key: "smtp", limit: 3, strict: true },
    run_at: at, timeout_seconds: 60, tags: ["x", "y"],
  });
  assert.deepEqual([state, created], ["scheduled", true]);
  const task = await windlass.task(id);
  assert.deepEqual(
    [task.kind, task.payload, task.namespace, task.queue, task.priority, task.max_attempts, task.idempotency_key, task.timeout_seconds, task.tags],
    ["mail:send", { to: "ada" }, "tenant", "mail", 7, null, "k", 60, ["x", "y"]],
  );
  assert.deepEqual(task.lane, { key: "smtp", limit: 3, strict: true });
  assert.equal(new Date(task.due_at ?? "").toISOString(), new Date(at).toISOString());
  const tenant = new Client({ server: windlass.server, namespace: "tenant" });
  assert.equal((await tenant.taskByKey("mail:send", "k")).id, id);
  await assert.rejects(windlass.taskByKey("mail:send", "k"), NotFoundError);
  assert.equal((await tenant.submit({ kind: "mail:send", idempotency_key: "k" })).id, id, "the client's namespace is the task's");
});

test("listings go through all pages", async (t) => {
  const windlass = await client(t);
  const batch = Array.from({ length: 25 }, (_, n) => ({ kind: n % 5 === 0 ? "five" : "other", payload: n, tags: ["all"] }));
  const submitted = await windlass.submitMany(batch);
  assert.equal(new Set(submitted.map(({ id }) => id)).size, 25);
  const ids = (tasks: Task[]) => tasks.map(({ id }) => id);
  const listed = await all(windlass.tasks({ tag: "all", limit: 4, oldest_first: true }));
  assert.deepEqual(ids(listed), submitted.map(({ id }) => id));
  assert.deepEqual(ids(await all(windlass.tasks({ kind: "five", state: ["pending", "scheduled"], limit: 2 }))).length, 5);
  for await (const task of windlass.tasks({ limit: 4 })) {
    assert.equal(task.id, submitted.at(-1)?.id, "newest first, and no more is asked for than is taken");
    break;
  }
});

test("operators step in", async (t) => {
  const windlass = await client(t);
  const { worker_id: me } = await windlass.register({ kinds: ["x"] });
  const { id } = await windlass.submit({ kind: "x", max_attempts: 1 });
  assert.equal((await windlass.why(id)).reason, "in_queue");
  await end(windlass, me, "failed", { error: "no" });
  await assert.rejects(windlass.retry(id), (error) => error instanceof ConflictError && error.code === "max_attempts_reached");
  assert.equal((await windlass.retry(id, { force: true, actor: "ada", reason: "again" })).state, "pending");
  await end(windlass, me, "failed", { error: "still no" });
  assert.equal((await windlass.resolve(id, { result: { by: "hand" } })).state, "resolved_manually");
  assert.deepEqual((await windlass.wait(id)).result, { by: "hand" });
  assert.equal((await windlass.delete(id)).id, id);
  await assert.rejects(windlass.task(id), NotFoundError);
  const other = await windlass.submit({ kind: "y" });
  assert.equal((await windlass.cancel(other.id, { reason: "no need" })).state, "cancelled");
  assert.equal((await windlass.task(other.id)).history.at(-1)?.note, "no need");
});

test("errors say what kind they are", async (t) => {
  const windlass = await client(t);
  await assert.rejects(windlass.submit({ kind: "a b" }), (error) => {
    assert.ok(error instanceof RefusedError);
    assert.deepEqual([error.code, error.status], ["invalid_task", 422]);
    assert.match(error.detail, /kind/);
    return error.message.includes(error.detail);
  });
  await assert.rejects(windlass.submitMany([{ kind: "fine" }, { kind: "a b" }]), (error) => error instanceof RefusedError && error.index === 1);
  await assert.rejects(windlass.task("x"), (error) => error instanceof RefusedError && error.status === 400);
  await assert.rejects(windlass.call("GET", "/v1/nothing"), (error) => error instanceof NotFoundError && error.code === "route_not_found");
  await assert.rejects(windlass.define("name: bad\nsteps:\n  a: { task: x, needs: [b] }\n"), (error) => {
    assert.ok(error instanceof RefusedError);
    const [mistake] = error.problems;
    return mistake?.line === 3 && mistake.advice !== "";
  });
  const away = new Client({ server: "http://127.0.0.1:9", tries: 2 });
  await assert.rejects(away.stats(), (error) => error instanceof ConnectionLostError && !error.sent && error.status === 0);
  assert.throws(() => new Client({ server: "127.0.0.1:7070" }), /such as http/);
});

test("waiting ends when the task does, or the time", async (t) => {
  const windlass = await client(t);
  const { worker_id: me } = await windlass.register({ kinds: ["x"] });
  const { id } = await windlass.submit({ kind: "x" });
  await assert.rejects(windlass.wait(id, { timeoutSeconds: 0.05 }), WaitTimeoutError);
  const reason = new Error("not any more");
  await assert.rejects(windlass.wait(id, { signal: AbortSignal.abort(reason) }), reason);
  const waiting = Array.from({ length: 40 }, () => windlass.wait<number>(id, { timeoutSeconds: 20 }));
  await end(windlass, me, "completed", { result: 42 });
  const waited = await Promise.all(waiting);
  assert.ok(waited.every((task) => task.state === "completed" && task.result === 42), "more than there are streams for");
  assert.equal((await windlass.wait(id)).attempt, 1, "at once if it is over");
});

test("workflows are defined, started, stepped into and seen", async (t) => {
  const windlass = await client(t);
  const { worker_id: me } = await windlass.register({ kinds: ["x"] });
  const text = "# a comment\nname: 'two' # steps\nsteps:\n  a: { task: x }\n  b: { task: x, needs: a, input: '${a}' }\n";
  assert.deepEqual(await windlass.define(text), { name: "two", version: "1", created: true });
  assert.equal((await windlass.define({ name: "two", version: "2", steps: { a: { task: "x" } } })).version, "2");
  assert.equal((await windlass.define('{"name": "three", "steps": {"a": {"task": "x"}}}')).name, "three");
  await assert.rejects(async () => windlass.define("steps: {}"), /no `name`/);
  assert.deepEqual((await windlass.definitions()).map(({ name }) => name).sort(), ["three", "two"]);
  assert.deepEqual((await windlass.definitions("two")).map(({ version }) => version), ["1", "2"]);
  assert.equal((await windlass.definition("two", "1")).version, "1");
  const { id } = await windlass.start({ definition: "two", version: "1", idempotency_key: "k" });
  assert.deepEqual((await windlass.start({ definition: "two", idempotency_key: "k" })).created, false);
  assert.equal((await windlass.pauseWorkflow(id)).paused, true);
  assert.equal((await windlass.resumeWorkflow(id)).paused, false);
  await end(windlass, me, "completed", { result: 5 });
  const waiting = windlass.waitForWorkflow(id, { timeoutSeconds: 20 });
  await end(windlass, me, "failed", { error: "no", retryable: false });
  assert.equal((await waiting).state, "blocked_by_failures");
  assert.deepEqual((await windlass.ancestors(id, "b")).map(({ step, result }) => [step, result]), [["a", 5]]);
  assert.equal((await windlass.retryStep(id, "b")).state, "pending");
  assert.equal((await windlass.resolveStep(id, "b", { result: 6 })).state, "resolved_manually");
  assert.deepEqual((await windlass.waitForWorkflow(id)).output, { b: 6 });
  assert.match(await windlass.graph(id), /^<svg/);
  assert.match(await windlass.graph(id, "mermaid"), /a.*b/s);
  const rerun = await windlass.rerunWorkflow(id, { from: "b" });
  assert.equal((await windlass.workflow(rerun.id)).origin_id, id);
  assert.equal((await windlass.cancelWorkflow(rerun.id, { reason: "enough" })).state, "cancelled");
  const own = await windlass.start({ steps: { a: { task: "y" }, b: { task: "y", needs: ["a"] }, c: { task: "y" } } });
  assert.equal((await windlass.skipStep(own.id, "a")).state, "skipped");
  assert.equal((await windlass.cancelStep(own.id, "c")).state, "cancelled");
  const found = await all(windlass.workflows({ definition: "two", limit: 1 }));
  assert.deepEqual(found.map((workflow) => workflow.id).sort(), [id, rerun.id].sort());
  const lost = await windlass.start({ steps: { a: { task: "x" } } });
  await end(windlass, me, "failed", { retryable: false });
  assert.equal((await windlass.giveUpWorkflow(lost.id)).state, "error");
  const settled = await windlass.start({ steps: { a: { task: "y" } } });
  assert.equal((await windlass.resolveWorkflow(settled.id)).state, "resolved_manually");
});

test("queues, schedules, workers and numbers", async (t) => {
  const windlass = await client(t);
  const { worker_id: me } = await windlass.register({ kinds: ["x"], hostname: "here" });
  await windlass.submit({ kind: "x" });
  assert.equal((await windlass.pauseQueue("default", { reason: "repairs" })).paused, true);
  assert.deepEqual((await windlass.claim(me)).tasks, []);
  assert.equal((await windlass.queues()).find(({ queue }) => queue === "default")?.paused, true);
  assert.equal((await windlass.resumeQueue("default")).paused, false);
  await end(windlass, me, "completed");
  const set = await windlass.setSchedule("nightly", { cron: "0 3 * * *", zone: "Europe/Berlin", task: { kind: "x", payload: { a: 1 } } });
  assert.deepEqual([set.cron, set.task.kind, set.paused], ["0 3 * * *", "x", false]);
  assert.equal((await windlass.pauseSchedule("nightly")).paused, true);
  assert.equal((await windlass.resumeSchedule("nightly")).paused, false);
  assert.equal((await windlass.runSchedule("nightly")).created, true);
  assert.deepEqual((await windlass.schedules()).map(({ name }) => name), ["nightly"]);
  assert.equal((await windlass.schedule("nightly")).fired, 1);
  assert.equal((await windlass.removeSchedule("nightly")).removed, true);
  assert.deepEqual(await windlass.schedules(), []);
  assert.equal((await windlass.workers()).find((one) => one.worker_id === me)?.hostname, "here");
  const { states, tasks } = await windlass.stats();
  assert.deepEqual([tasks, states["completed"], states["pending"]], [2, 1, 1]);
  assert.equal((await windlass.health()).status, "healthy");
  assert.ok((await windlass.ready()).status);
  assert.equal((await windlass.deregister(me)).worker_id, me);
});

test("a token is shown, and what it does not allow is refused", async (t) => {
  const server = await Server.start(t);
  const token = (name: string, scope: string) =>
    (JSON.parse(server.command("token", "create", name, "--scope", scope, "--json")) as { token: string }).token;
  const [reads, works, all] = [token("r", "read"), token("w", "work"), token("a", "admin")];
  const withToken = (token?: string) => server.client({ token });
  await until("the server knows of tokens", () => withToken().stats().then(() => false, (error) => error instanceof UnauthorisedError));
  const { id } = await withToken(all).submit({ kind: "x" });
  assert.equal((await withToken(reads).task(id)).id, id);
  await assert.rejects(withToken(reads).submit({ kind: "x" }), (error) => error instanceof UnauthorisedError && error.status === 403);
  await assert.rejects(withToken("wl_wrong").task(id), (error) => error instanceof UnauthorisedError && error.status === 401);
  const busy = worker(t, withToken(works)).handle("x", () => "done");
  await busy.start();
  assert.equal((await withToken(all).wait(id, { timeoutSeconds: 20 })).result, "done", "the heartbeat has the token, too");
  const stranger = worker(t, withToken(reads)).handle("x", () => 1);
  await assert.rejects(stranger.start(), UnauthorisedError);
});

test("TLS with an authority of one's own", async (t) => {
  const server = await Server.start(t);
  const file = (name: string) => join(server.folder, name);
  const make = (...words: string[]) => execFileSync("openssl", words, { stdio: "pipe" });
  make("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=windlass test",
    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", file("key.pem"), "-out", file("cert.pem"));
  const secure = await Server.start(t, "memory", "--tls-cert", file("cert.pem"), "--tls-key", file("key.pem"));
  assert.match(secure.url, /^https:/);
  const strict = secure.client({ tries: 1 });
  await assert.rejects(strict.stats(), (error) => error instanceof ConnectionLostError && !error.sent);
  const windlass = secure.client({ ca: file("cert.pem") });
  const busy = worker(t, windlass).handle("x", (payload) => payload);
  await busy.start();
  const { id } = await windlass.submit({ kind: "x", payload: "secret" });
  assert.equal((await windlass.wait(id, { timeoutSeconds: 20 })).result, "secret");
});

test("a server that is asked too often is asked again after a while", async (t) => {
  const windlass = (await Server.start(t, "memory", "--rate-limit", "5")).client({ tries: 10 });
  const answers = await Promise.all(Array.from({ length: 12 }, () => windlass.submit({ kind: "x" })));
  assert.equal(new Set(answers.map(({ id }) => id)).size, 12);
  const hasty = new Client({ server: windlass.server, tries: 1 });
  const refused = await Promise.allSettled(Array.from({ length: 30 }, () => hasty.stats()));
  const reasons = refused.flatMap((one) => (one.status === "rejected" ? [one.reason as unknown] : []));
  assert.ok(reasons.length > 0 && reasons.every((error) => error instanceof UnavailableError && error.status === 429 && error.retryAfter === 1));
});
