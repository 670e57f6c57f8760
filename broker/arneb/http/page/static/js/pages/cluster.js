/** The cluster: who leads, how far the node that the browser has reached is behind, and its clock. */
import { bytes, count, counted, lasting } from "../format.js";
import { html } from "../html.js";
import { parts } from "../member.js";
import { Head } from "../parts/head.js";
import { Table } from "../parts/table.js";
import { useStreamState } from "../stream.js";

/** What the states of a node are called, and how they look. */
const STATES = /** @type {Record<string, [string, string]>} */ ({
  following: ["follows", ""],
  probing: ["asks whether nobody leads", "warn"],
  fencing: ["takes over", "warn"],
  taking: ["takes over", "warn"],
  opening: ["takes over", "warn"],
  leading: ["leads", "good"],
  resigning: ["hands on", "warn"],
  closing: ["hands on", "warn"],
  stopped: ["takes no part", "bad"],
});

/** @param {string} state */
function State({ state }) {
  const [text, kind] = STATES[state] ?? [state, ""];
  return html`<span class=${`tag ${kind}`}>${text}</span>`;
}

/** @param {any} row */
const lease = (row) => (!row.leads ? html`<span class="quiet">–</span>` : row.serves ? html`<span class="tag good">holds</span>` : html`<span class="tag bad">the log does not answer</span>`);

/** @param {any} row */
const lag = (row) => (row.leads ? html`<span class="quiet">–</span>` : `${lasting(row.lag_s)}, ${counted(row.lag_records, "record")}, ${bytes(row.lag_bytes)}`);

/** @param {any} row */
const clock = (row) => (row.leads ? html`<span class="quiet">–</span>` : html`<span class=${row.skew_alarm ? "tag bad" : ""}>${`${count(Math.abs(row.skew_ms))} ms ${row.skew_ms < 0 ? "behind" : "ahead"}`}</span>`);

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  { title: "Node", head: true, kind: "break", show: (row) => html`${row.node}${row.isHere ? html` <span class="tag accent">this node</span>` : ""}` },
  { title: "Shard", show: (row) => row.shard },
  { title: "State", show: (row) => html`<${State} state=${row.state} />` },
  { title: "Leader", show: (row) => (row.led_by ? `${row.led_by}, epoch ${count(row.epoch)}` : html`<span class="tag bad">nobody</span>`) },
  { title: "Lag", show: lag },
  { title: "Lease", show: lease },
  { title: "Clock, to the leader's", show: clock },
  { title: "Record", number: true, show: (row) => count(row.number) },
  { title: "Without a receipt", number: true, kind: "aside", show: (row) => (row.leads ? count(row.under_way) : html`<span class="quiet">–</span>`) },
];

/** What a node knows of all that have a copy. @param {any} shard */
const members = (shard) => (shard.members ?? []).map((/** @type {any} */ each) => ({ ...each, shard: shard.shard, behind: Math.max(0, shard.number - each.number) }));

/** @type {import("../parts/table.js").Column[]} */
const MEMBERS = [
  { title: "Member", head: true, kind: "break", show: (each) => each.node },
  { title: "Shard", kind: "aside", show: (each) => each.shard },
  { title: "Copy", show: (each) => (each.is_copying ? html`<span class="tag warn">is being made</span>` : html`<span class="tag good">on disk</span>`) },
  { title: "Up to record", number: true, show: (each) => count(each.number) },
  { title: "Behind", number: true, show: (each) => counted(each.behind, "record") },
  { title: "Heard of", number: true, show: (each) => `${lasting(each.heard_s)} ago` },
];

/** @param {{node: any, member: any}} of */
export function Cluster({ node, member }) {
  // What the leader said last is no news while it says nothing.
  const isLive = useStreamState() === "live";
  const leaders = node?.members ?? [node?.cluster].filter(Boolean);
  const rows = parts(member, isLive ? leaders : []);
  const title = "Cluster";
  if (!rows.length) {
    const waits = node === undefined || node.cluster;
    const text = node?.memory_bytes === undefined ? "This page is for users who may monitor." : "This broker is not in a cluster: it keeps its messages alone.";
    return html`<${Head} title=${title} />${waits ? html`<p class="none" aria-busy="true">Loading …</p>` : html`<p class="none">${text}</p>`}`;
  }
  const here = member ?? node?.cluster;
  // The leader is told by members themselves; others know it a little later.
  const copies = rows.filter((each) => each.leads || !rows.some((other) => other.leads && other.shard === each.shard)).flatMap(members);
  const ended = rows.filter((each) => each.why);
  return html`
    <${Head} title=${title} text=${headline(rows, here)} />
    <section class="card flush"><${Table} label="Parts in the cluster" columns=${COLUMNS} rows=${rows} id=${(/** @type {any} */ row) => `${row.node} ${row.shard}`} /></section>
    ${copies.length > 0 && html`<section class="card flush"><div class="card-head"><h2>Copies</h2></div>
      <${Table} label="Copies" columns=${MEMBERS} rows=${copies} id=${(/** @type {any} */ each) => `${each.node} ${each.shard}`} /></section>`}
    <div class="grid">
      <section class="card"><h2>Node ${here.node}</h2>
        <dl class="facts">
          <dt>Clients carried</dt><dd>${count(here.carried)} to the node that leads</dd>
          ${ended.map((each) => html`<dt>${each.node} last ended</dt><dd class="break">${each.why}</dd>`)}
          <dt>Others</dt><dd>Above are this node and those that lead; open the page at another node to see how that one does. All other pages show what leaders say.</dd>
        </dl>
      </section>
    </div>`;
}

/** @param {any[]} rows @param {any} here */
function headline(rows, here) {
  const leaders = [...new Set(rows.filter((each) => each.led_by).map((each) => each.led_by))];
  const reached = `this is node ${here.node}`;
  return leaders.length ? `${leaders.join(" and ")} ${leaders.length > 1 ? "lead" : "leads"}; ${reached}` : `Nobody leads at the moment; ${reached}`;
}
