/** One queue or topic: what flows, who reads, where its cursors stand, and its messages. */
import { path, remove } from "../api.js";
import { age, bytes, count, counted, rate, short } from "../format.js";
import { html, useState } from "../html.js";
import { Chart } from "../parts/chart.js";
import { Confirm } from "../parts/dialog.js";
import { Figures, Head, Waiting } from "../parts/head.js";
import { Tabs } from "../parts/tabs.js";
import { to } from "../route.js";
import { pointsOf, useSeries } from "../series.js";
import { useWatch } from "../stream.js";
import { Bindings } from "./bindings.js";
import { Messages } from "./messages.js";
import { recorded } from "./move.js";
import { Publish } from "./publish.js";
import { Subscriptions } from "./subscriptions.js";

const COUNTED = ["in", "out", "acknowledged"];

/** @param {any} answer */
const read = (answer) => pointsOf(answer, COUNTED);

/** @param {{page: string, names: string[], node: any}} of */
export function Queue({ page, names, node }) {
  // Of one name: a topic in a namespace that is no virtual host's.
  const isNamed = page === "topics";
  const [vhost, name] = isNamed ? ["", names[0].replace(/^persistent:\/\//, "")] : names;
  const from = isNamed ? `page/topic/${path(names[0])}` : `page/queues/${path(vhost, name ?? "")}`;
  const { queue } = useWatch({ queue: from });
  const [asked, ask] = useState("");
  const at = names[isNamed ? 1 : 2] ?? "figures";
  const shown = queue?.status === 200 ? queue.body : undefined;
  const now = shown && { in: shown.in, out: shown.out, acknowledged: shown.acknowledged, ready: shown.ready, unacknowledged: shown.unacknowledged };
  const points = useSeries(`${from}/history`, read, now, queue);
  if (!shown) return html`<${Head} title=${name ?? ""} /><${Waiting} answer=${queue} />`;
  const place = path(vhost, name);
  const isQueue = shown.type !== "topic";
  const tabs = ["figures", "subscriptions", "messages", ...(isQueue ? ["bindings", "publish"] : [])].map((each) => ({ name: each, title: TITLES[each], hash: isNamed ? to("topics", names[0], each) : to("queues", vhost, name, each) }));
  return html`
    <${Head} title=${name} text=${html`${shown.type === "topic" ? "Topic" : `${shown.type} queue`}${isNamed ? ", in no virtual host" : ` in ${vhost}`}${shown.durable ? "" : ", in memory only"}${shown.policy ? html`, by policy <a href=${to("policies", vhost, shown.policy)}>${shown.policy}</a>` : ""}`}>
      ${isQueue && html`<button class="button" onClick=${() => ask("purge")}>Purge</button><button class="button bad" onClick=${() => ask("delete")}>Delete</button>`}
    <//>
    <p class="notice ${shown.attention ? "warn" : ""}"><span class="strong">Why does it grow?</span>${shown.why}</p>
    <${Tabs} label="Parts of this queue" at=${at} tabs=${tabs} />
    ${at === "figures" && html`<${Flow} shown=${shown} points=${points} />`}
    ${at === "subscriptions" && html`<${Subscriptions} queue=${shown} />`}
    ${at === "messages" && html`<${Messages} name=${name} from=${isNamed ? `${from}/messages` : `page/messages/${place}`} isKept=${isNamed} audited=${node?.audited} />`}
    ${at === "bindings" && html`<${Bindings} vhost=${vhost} name=${name} />`}
    ${at === "publish" && html`<${Publish} vhost=${vhost} queue=${name} />`}
    ${asked === "purge" &&
    html`<${Confirm} title="Purge this queue?" name=${name} action="Purge" done=${`Purged ${name}.`} onClose=${() => ask("")}
      text=${`${counted(shown.ready, "message that waits is", "messages that wait are")} deleted for good; those at consumers (${count(shown.unacknowledged)}) stay. ${recorded(node?.audited)}`}
      work=${() => remove(`queues/${place}/contents`)} />`}
    ${asked === "delete" &&
    html`<${Confirm} title="Delete this queue?" name=${name} action="Delete" done=${`Deleted ${name}.`} onClose=${() => ask("")}
      text=${`The queue goes with its ${counted(shown.messages, "message")}, its bindings and all other subscriptions of its topic. ${recorded(node?.audited)}`}
      work=${async () => {
        await remove(`queues/${place}`);
        location.hash = to("queues");
      }} />`}`;
}

const TITLES = /** @type {Record<string, string>} */ ({ figures: "Figures", subscriptions: "Subscriptions and consumers", messages: "Messages", bindings: "Bindings", publish: "Publish" });

/** @param {{shown: any, points: any}} of */
function Flow({ shown, points }) {
  const facts = Object.entries({ ...shown.definition, ...shown.arguments });
  return html`
    <${Figures} figures=${[
      { title: "Ready", value: count(shown.ready) },
      { title: "At consumers", value: count(shown.unacknowledged) },
      ...(shown.delayed ? [{ title: "Not due yet", value: count(shown.delayed) }] : []),
      { title: "Oldest message", value: age(shown.oldest_ms) },
      { title: "Coming in", value: rate(shown.in), dot: "s1" },
      { title: "Going out", value: rate(shown.out), dot: "s2" },
      { title: "Acknowledged", value: rate(shown.acknowledged), dot: "s3" },
    ]} />
    <div class="grid">
      <section class="card" aria-label="Message rates"><h2>Messages a second</h2>
        <${Chart} label="Messages a second" times=${points.times} lines=${[
          { label: "in", colour: "--series-1", values: points.values.in ?? [] },
          { label: "out", colour: "--series-2", values: points.values.out ?? [] },
          { label: "acknowledged", colour: "--series-3", values: points.values.acknowledged ?? [] },
        ]} />
      </section>
      <section class="card" aria-label="Messages waiting"><h2>Messages</h2>
        <${Chart} label="Messages" times=${points.times} show=${short} lines=${[
          { label: "ready", colour: "--series-1", values: points.values.ready ?? [] },
          { label: "at consumers", colour: "--series-3", values: points.values.unacknowledged ?? [] },
        ]} />
      </section>
    </div>
    <div class="grid">
      <section class="card"><h2>What it holds</h2>
        <dl class="facts">
          <dt>Messages in the log</dt><dd>${count(shown.stored_messages)}, ${bytes(shown.stored_bytes)}</dd>
          <dt>Waiting</dt><dd>${bytes(shown.bytes)}</dd>
          <dt>Ledgers</dt><dd>${count(shown.ledgers_total)}</dd>
          <dt>Pulsar topic</dt><dd class="mono break">${shown.topic}</dd>
        </dl>
      </section>
      <section class="card"><h2>What it was made with</h2>
        ${facts.length ? html`<dl class="facts">${facts.map(([key, value]) => html`<dt>${key}</dt><dd>${typeof value === "object" ? JSON.stringify(value) : String(value)}</dd>`)}</dl>` : html`<p class="quiet">No arguments and no policy.</p>`}
      </section>
    </div>`;
}
