/** Which page stands behind which route. */
import { html } from "./html.js";
import { Channels } from "./pages/channels.js";
import { Cluster } from "./pages/cluster.js";
import { Connection } from "./pages/connection.js";
import { Connections } from "./pages/connections.js";
import { Definitions } from "./pages/definitions.js";
import { Delayed } from "./pages/delayed.js";
import { Exchange } from "./pages/exchange.js";
import { Exchanges } from "./pages/exchanges.js";
import { Overview } from "./pages/overview.js";
import { Policies } from "./pages/policies.js";
import { PulsarConnection } from "./pages/pulsar_connection.js";
import { Queue } from "./pages/queue.js";
import { Queues } from "./pages/queues.js";
import { Trace } from "./pages/trace.js";
import { Transactions } from "./pages/transactions.js";
import { Users } from "./pages/users.js";
import { Vhosts } from "./pages/vhosts.js";
import { Head } from "./parts/head.js";

function Missing() {
  return html`<${Head} title="No such page" /><p><a href="#/">To the overview</a></p>`;
}

/** A list, or one thing of it when the route names one. @param {any} list @param {any} one */
const either = (list, one) => (/** @type {any} */ props) => (props.names.length ? html`<${one} ...${props} />` : html`<${list} ...${props} />`);

/** @type {Record<string, any>} */
export const PAGES = {
  overview: Overview,
  queues: either(Queues, Queue),
  exchanges: either(Exchanges, Exchange),
  connections: either(Connections, Connection),
  "pulsar-connections": PulsarConnection,
  channels: Channels,
  cluster: Cluster,
  topics: Queue,
  delayed: Delayed,
  trace: Trace,
  transactions: Transactions,
  users: Users,
  vhosts: Vhosts,
  policies: Policies,
  "operator-policies": (/** @type {any} */ props) => html`<${Policies} ...${props} kind="operator-policies" />`,
  definitions: Definitions,
  missing: Missing,
};
