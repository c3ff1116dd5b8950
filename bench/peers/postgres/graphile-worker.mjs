// graphile-worker with the settings that its documentation calls the fastest, and a larger local queue, which was
// faster still. It deletes a task when it is completed and keeps neither history nor results. With these settings
// a handler's end is told to the database later, for many tasks in one statement.

import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

import { measure } from "./measure.mjs";

const SCHEMA = "peer_graphile_worker";

await measure("graphile-worker", async ({ url, concurrency, fail }) => {
  const pool = new pg.Pool({ connectionString: url, max: concurrency + 1 });
  pool.on("error", fail).on("connect", (client) => client.on("error", fail));
  await pool.query(`DROP SCHEMA IF EXISTS ${SCHEMA} CASCADE`);
  const preset = {
    worker: {
      schema: SCHEMA,
      concurrentJobs: concurrency,
      localQueue: { size: 4000 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
      logger: new Logger(() => () => {}),
    },
  };
  const queue = await makeWorkerUtils({ preset, pgPool: pool });
  await queue.migrate();
  let [submitted, runner] = [0, null];
  return {
    async submit(payloads) {
      await queue.addJobs(payloads.map((payload) => ({ identifier: "nothing", payload })));
      submitted += payloads.length;
    },
    async start(began) {
      runner = await run({ preset, pgPool: pool, noHandleSignals: true, taskList: { nothing: () => began() } });
      runner.promise.catch(fail);
    },
    async completed() {
      const { rows } = await pool.query(`SELECT count(*)::int AS left FROM ${SCHEMA}._private_jobs`);
      return submitted - rows[0].left;
    },
    submitOne: () => queue.addJob("nothing", {}),
    async close() {
      await runner.stop();
      await pool.query(`DROP SCHEMA ${SCHEMA} CASCADE`);
    },
  };
});
