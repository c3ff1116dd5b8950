// pg-boss, used in the way that was fastest: whole batches are inserted, fetched and completed, without its own
// worker, which makes an abort signal for each task. It keeps the row of a completed task, and no history.

import pg from "pg";
import { PgBoss } from "pg-boss";

import { measure } from "./measure.mjs";

const SCHEMA = "peer_pg_boss";
const [MANY, ONE] = ["many", "one"];
// One fetch serves far more tasks than the 24 at once that are asked of the others; more fetchers were no faster.
const FETCHERS = 4;
const BATCH = 1000;

await measure("pg-boss", async ({ url, concurrency, fail }) => {
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  pool.on("error", fail);
  await pool.query(`DROP SCHEMA IF EXISTS ${SCHEMA} CASCADE`);
  const boss = new PgBoss({
    connectionString: url,
    schema: SCHEMA,
    max: concurrency + 1,
    schedule: false,
    supervise: false,
    useListenNotify: true,
  });
  boss.on("error", fail);
  await boss.start();
  await boss.createQueue(MANY);
  // Its own worker is woken when a task arrives; who fetches by hand would have to poll.
  await boss.createQueue(ONE, { notify: true });

  async function fetchAll(began) {
    for (;;) {
      const tasks = await boss.fetch(MANY, { batchSize: BATCH });
      if (tasks.length === 0) return;
      for (const _ of tasks) began();
      await boss.complete(MANY, tasks.map((task) => task.id));
    }
  }

  return {
    submit: (payloads) => boss.insert(MANY, payloads.map((data) => ({ data }))),
    async start(began) {
      await boss.work(ONE, async () => began());
      for (let fetcher = 0; fetcher < Math.min(FETCHERS, concurrency); fetcher++) fetchAll(began).catch(fail);
    },
    async completed() {
      const sql = `SELECT count(*)::int AS completed FROM ${SCHEMA}.job WHERE name = $1 AND state = 'completed'`;
      const { rows } = await pool.query(sql, [MANY]);
      return rows[0].completed;
    },
    submitOne: () => boss.send(ONE, {}),
    async close() {
      await boss.stop({ graceful: false });
      await pool.query(`DROP SCHEMA ${SCHEMA} CASCADE`);
    },
  };
});
