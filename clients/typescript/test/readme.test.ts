/** What the README shows works when it is pasted, and prints what it says. */
import assert from "node:assert/strict";
import { execFile, execFileSync, spawn } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { atEnd, Server, until } from "./kit.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const run = promisify(execFile);

/** The programs of the README, by name. */
function programs(): Map<string, string> {
  const text = readFileSync(join(root, "README.md"), "utf8");
  const blocks = [...text.matchAll(/^```ts\n\/\/ (\w+)\.ts\n(.*?)^```$/gms)];
  assert.equal(blocks.length, text.match(/^```(ts|js|typescript|javascript)$/gm)?.length, "every block has a name");
  return new Map(blocks.map(([, name, code]) => [name!, code!]));
}

test("the README's programs work when they are pasted", async (t) => {
  const folder = join(root, "dist-test", "readme");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  atEnd(t, async () => rmSync(folder, { recursive: true, force: true }));
  const found = programs();
  for (const [name, code] of found) writeFileSync(join(folder, `${name}.ts`), code);
  const strict = ["--strict", "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext", "--types", "node", "--skipLibCheck"];
  const files = [...found.keys()].map((name) => join(folder, `${name}.ts`));
  execFileSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), ...strict, "--rootDir", folder, "--outDir", folder, ...files], { cwd: root, stdio: "inherit" });

  const server = await Server.start(t);
  const env = { ...process.env, WINDLASS_SERVER: server.url };
  const worker = spawn(process.execPath, [join(folder, "worker.js")], { env, stdio: "inherit" });
  atEnd(t, async () => void worker.kill("SIGKILL"));
  await until("the worker works", async () => (await server.client().workers()).some(({ kinds }) => kinds.includes("hello")));
  for (const [name, code] of found) {
    if (name === "worker") continue;
    const { stdout } = await run(process.execPath, [join(folder, `${name}.js`)], { env, timeout: 20_000 });
    const printed = [...code.matchAll(/\/\/ prints: (.*)$/gm)].map(([, line]) => line);
    assert.ok(printed.length > 0, `${name} says what it prints`);
    assert.deepEqual(stdout.trimEnd().split("\n"), printed, name);
  }
  const ended = new Promise((resolve) => worker.once("exit", resolve));
  worker.kill("SIGTERM");
  assert.equal(await ended, 0);
});
