/** The thread that a worker's heartbeat runs in. What it is given and what it tells is in `pulse.ts`. */
import { parentPort, workerData } from "node:worker_threads";
import { Beat } from "./beat.js";
import { Link } from "./link.js";
import type { Order, Setting } from "./pulse.js";

const { address, worker, secret, seconds } = workerData as Setting;
const link = new Link(address, secret);
const beat = new Beat(link, worker, seconds, (news) => parentPort?.postMessage(news));
parentPort?.on("message", (order: Order) => {
  switch (order.do) {
    case "hold":
      return beat.hold(order.leases);
    case "let go":
      return beat.letGo(order.lease);
    case "registered":
      return beat.registered();
    case "stop":
      return beat.stop();
  }
});
await beat.run();
link.close();
parentPort?.close();
