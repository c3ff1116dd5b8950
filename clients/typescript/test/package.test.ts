/** What is published: installed in an empty place and used from there, from JavaScript and from TypeScript. */
import assert from "node:assert/strict";
import { execFile, execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { VERSION } from "windlass";
import { Server } from "./kit.js";

const root = fileURLToPath(new URL("..", import.meta.url));

test("the package is complete, and has no dependencies", async (t) => {
  const place = mkdtempSync(join(tmpdir(), "windlass-package-"));
  t.after(() => rmSync(place, { recursive: true, force: true }));
  const npm = (...words: string[]) => execFileSync("npm", words, { cwd: place, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  const [packed] = JSON.parse(npm("pack", root, "--json", "--ignore-scripts")) as { filename: string; files: { path: string }[] }[];
  assert.ok(packed);
  const names = packed.files.map(({ path }) => path);
  for (const needed of ["dist/index.js", "dist/index.d.ts", "dist/worker/beat-thread.js", "README.md", "LICENSE-MIT", "LICENSE-APACHE"]) {
    assert.ok(names.includes(needed), `${needed} is missing`);
  }
  assert.deepEqual(names.filter((name) => /test|scripts|src|conformance/.test(name)), []);
  writeFileSync(join(place, "package.json"), JSON.stringify({ private: true, type: "module" }));
  npm("install", "--offline", "--no-audit", "--no-fund", `./${packed.filename}`);
  const lock = JSON.parse(readFileSync(join(place, "package-lock.json"), "utf8")) as { packages: object };
  assert.deepEqual(Object.keys(lock.packages).sort(), ["", "node_modules/windlass"]);

  const use = (kind: string, types = "") => `
    import { Client, Worker } from "windlass";
    const client = new Client();
    const worker = new Worker(client).handle${types}("${kind}", async ({ n }) => n + 1);
    await worker.start();
    const { id } = await client.submit({ kind: "${kind}", payload: { n: 41 } });
    const task = await client.wait${types && "<number>"}(id, { timeoutSeconds: 20 });
    console.log(task.state, task.result);
    await worker.stop();`;
  writeFileSync(join(place, "plain.mjs"), use("js"));
  writeFileSync(join(place, "typed.mts"), use("ts", "<{ n: number }, number>"));
  writeFileSync(join(place, "wrong.mts"), use("ts", "<{ n: string }, number>"));
  symlinkSync(join(root, "node_modules/@types"), join(place, "node_modules/@types"));
  const words = ["--strict", "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext", "typed.mts", "wrong.mts"];
  const checked = spawnSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), ...words], { cwd: place, encoding: "utf8" });
  const mistakes = checked.stdout.split("\n").filter((line) => /^\S/.test(line));
  assert.ok(mistakes.length > 0 && mistakes.every((line) => line.startsWith("wrong.mts(4,")), checked.stdout);
  const server = await Server.start(t, "memory");
  const env = { ...process.env, WINDLASS_SERVER: server.url };
  for (const program of ["plain.mjs", "typed.mjs"]) {
    const { stdout } = await promisify(execFile)(process.execPath, [program], { cwd: place, env, timeout: 20_000 });
    assert.equal(stdout, "completed 42\n", program);
  }
});

test("the package says its version", () => {
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  assert.equal(VERSION, version);
});

test("the types are those of the contract, and the lock file names no registry", () => {
  execFileSync(process.execPath, [join(root, "scripts/wire.mjs"), "--check"], { stdio: "inherit" });
  assert.doesNotMatch(readFileSync(join(root, "package-lock.json"), "utf8"), /"resolved"|https?:/);
});
