/** The overview: what flows, what waits, and whether the machine keeps up. */
import { html, useRef } from "../html.js";
import { bytes, count, lasting, rate, short } from "../format.js";
import { Chart } from "../parts/chart.js";
import { Figures, Head, Waiting } from "../parts/head.js";
import { Meter } from "../parts/meter.js";
import { pointsOf, ranges, useSeries } from "../series.js";
import { useWatch } from "../stream.js";
import { to } from "../route.js";
import { TopRows } from "./queues.js";

const FLOWS = ["publish", "deliver_get", "ack", "redeliver"];
const COUNTED = [...FLOWS, "return_unroutable", "drop_unroutable"];
const HISTORY = `overview?${ranges("msg_rates", "lengths")}`;

/** @param {any} answer */
function read(answer) {
  const stats = answer.message_stats ?? {};
  const totals = answer.queue_totals ?? {};
  const details = Object.fromEntries([
    ...FLOWS.map((each) => [each, stats[`${each}_details`]]),
    ...["messages_ready", "messages_unacknowledged"].map((each) => [each, totals[`${each}_details`]]),
  ]);
  return pointsOf(details, FLOWS);
}

/** @param {any} overview */
function rates(overview) {
  const stats = overview?.message_stats ?? {};
  return Object.fromEntries(COUNTED.map((each) => [each, stats[`${each}_details`]?.rate ?? 0]));
}

/** @param {{node: any}} of */
export function Overview({ node }) {
  const { overview } = useWatch({ overview: "overview" });
  const now = overview?.body;
  const flow = rates(now);
  const totals = now?.queue_totals ?? {};
  const lengths = { messages_ready: totals.messages_ready ?? 0, messages_unacknowledged: totals.messages_unacknowledged ?? 0 };
  const points = useSeries(HISTORY, read, now && { ...flow, ...lengths }, overview);
  const commits = useCommits(node);
  if (!now || overview?.status !== 200) return html`<${Head} title="Overview" /><${Waiting} answer=${overview} />`;
  const lost = flow.return_unroutable + flow.drop_unroutable;
  const objects = now.object_totals;
  return html`
    <${Head} title="Overview" text=${`${now.cluster_name}${node?.started_ms ? `, up for ${lasting((Date.now() - node.started_ms) / 1000)}` : ""}`} />
    <${Figures} figures=${[
      { title: "Coming in", value: rate(flow.publish), dot: "s1" },
      { title: "Going out", value: rate(flow.deliver_get), dot: "s2" },
      { title: "Acknowledged", value: rate(flow.ack), dot: "s3" },
      { title: "Redelivered", value: rate(flow.redeliver), dot: "s4" },
      { title: "Without a queue", value: rate(lost), more: lost ? "routed nowhere" : "" },
    ]} />
    <div class="grid">
      <section class="card" aria-label="Message rates"><h2>Messages a second</h2>
        <${Chart} label="Messages a second" times=${points.times} lines=${[
          { label: "in", colour: "--series-1", values: points.values.publish ?? [] },
          { label: "out", colour: "--series-2", values: points.values.deliver_get ?? [] },
          { label: "acknowledged", colour: "--series-3", values: points.values.ack ?? [] },
          { label: "redelivered", colour: "--series-4", values: points.values.redeliver ?? [] },
        ]} />
      </section>
      <section class="card" aria-label="Messages waiting"><h2>Messages in queues</h2>
        <${Chart} label="Messages in queues" times=${points.times} lines=${[
          { label: "ready", colour: "--series-1", values: points.values.messages_ready ?? [] },
          { label: "at consumers", colour: "--series-3", values: points.values.messages_unacknowledged ?? [] },
        ]} show=${short} />
      </section>
    </div>
    <${TopRows} />
    <div class="grid">
      <section class="card"><h2>What there is</h2>
        <dl class="facts">
          <dt>Queues</dt><dd><a href=${to("queues")}>${count(objects.queues)}</a></dd>
          <dt>Connections</dt><dd><a href=${to("connections")}>${count(objects.connections)}</a></dd>
          <dt>Channels</dt><dd><a href=${to("channels")}>${count(objects.channels)}</a></dd>
          <dt>Consumers</dt><dd>${count(objects.consumers)}</dd>
          <dt>Exchanges</dt><dd><a href=${to("exchanges")}>${count(objects.exchanges)}</a></dd>
        </dl>
      </section>
      ${node?.memory_bytes !== undefined && html`<${Machine} node=${node} commits=${commits} />`}
      ${node?.leaders && html`<${Leaders} leaders=${node.leaders} />`}
      ${now.listeners && html`<${Ports} listeners=${now.listeners} />`}
    </div>`;
}

/** How long commits took lately and how much they carried: the difference of two looks. @param {any} node */
function useCommits(node) {
  const before = useRef(/** @type {any[]} */ ([]));
  if (!node?.commit_s) return undefined;
  const kept = before.current;
  if (kept[kept.length - 1]?.commits_total !== node.commits_total) kept.push(node);
  if (kept.length > 15) kept.shift();
  const first = kept[0];
  const timed = total(node.commit_s.counts) - total(first.commit_s.counts);
  const sum = node.commit_s.sum - first.commit_s.sum;
  const group = node.commit_entries.sum - first.commit_entries.sum;
  return timed > 0 ? { mean_s: sum / timed, group: group / timed } : undefined;
}

/** @param {number[]} of */
const total = (of) => of.reduce((sum, each) => sum + each, 0);

/** The nodes that lead, where a cluster has several shards. @param {{leaders: any[]}} of */
function Leaders({ leaders }) {
  return html`<section class="card" aria-label="Shards"><h2>Shards</h2>
    <dl class="facts">
      ${leaders.map((each) => html`<dt>${each.shard}</dt><dd>led by ${each.node}: memory ${bytes(each.memory_bytes)} of ${bytes(each.memory_limit_bytes)}, ${bytes(each.disk_free_bytes)} of disk free, store ${bytes(each.store_bytes)}</dd>`)}
    </dl>
  </section>`;
}

/** @param {any} of */
function Machine({ node, commits }) {
  const isOne = !node.leaders;
  return html`<section class="card"><h2>${isOne ? "Machine" : "All shards"}</h2>
    <dl class="facts">
      ${isOne && html`<dt>Memory</dt><dd>${bytes(node.memory_bytes)} of ${bytes(node.memory_limit_bytes)}<${Meter} label="Memory" is=${node.memory_bytes} of=${node.memory_limit_bytes} /></dd>
      <dt>Disk free</dt><dd>${bytes(node.disk_free_bytes)}, alarm below ${bytes(node.disk_free_min_bytes)}</dd>`}
      <dt>Store</dt><dd>${bytes(node.store_bytes)}</dd>
      <dt>Commits</dt><dd>${commits ? `${lasting(commits.mean_s)} each, ${short(commits.group)} messages together` : "none just now"}</dd>
      ${node.commit_failures_total > 0 && html`<dt>Failed commits</dt><dd>${count(node.commit_failures_total)}</dd>`}
    </dl>
  </section>`;
}

/** @param {any} of */
function Ports({ listeners }) {
  return html`<section class="card"><h2>Ports</h2>
    <dl class="facts">
      ${listeners.map((/** @type {any} */ each) => html`<dt>${each.protocol}</dt><dd>${each.ip_address}:${each.port}</dd>`)}
    </dl>
  </section>`;
}
