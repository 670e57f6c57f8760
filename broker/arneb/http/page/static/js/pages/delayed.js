/** Delayed messages: where some wait for their time. */
import { get, query } from "../api.js";
import { age, count } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { Head, Waiting } from "../parts/head.js";
import { Table } from "../parts/table.js";
import { to } from "../route.js";
import { useWatch } from "../stream.js";
import { lasting, time, utc } from "../format.js";
import { path } from "../api.js";

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  { title: "Queue, topic or exchange", head: true, kind: "break", show: (row) => (row.exchange ? html`<a href=${to("exchanges", row.vhost, row.name)}>${row.name}</a> <span class="tag">exchange</span>` : html`<a href=${to("queues", row.vhost, row.name, "messages")}>${row.name}</a>`) },
  { title: "Virtual host", show: (row) => row.vhost },
  { title: "Not due yet", number: true, show: (row) => count(row.delayed) },
  { title: "Oldest", number: true, kind: "aside", show: (row) => age(row.oldest_ms) },
];

/** @type {import("../parts/table.js").Column[]} */
const DUE = [
  { title: "Due", head: true, show: (each) => html`<time datetime=${utc(each.deliver_at_ms)} title=${utc(each.deliver_at_ms)}>${time(each.deliver_at_ms)}</time>` },
  { title: "In", number: true, show: (each) => lasting(Math.max(0, (each.deliver_at_ms - Date.now()) / 1000)) },
  { title: "Position", kind: "mono", show: (each) => each.position },
  { title: "Key", kind: "break", show: (each) => each.key ?? "" },
  { title: "Body", kind: "mono break", show: (each) => (each.encoding === "base64" ? "(bytes)" : each.body.slice(0, 120)) },
];

export function Delayed() {
  const { delayed } = useWatch({ delayed: "page/delayed" });
  const [chosen, choose] = useState(/** @type {any} */ (null));
  if (delayed?.status !== 200) return html`<${Head} title="Delayed messages" /><${Waiting} answer=${delayed} />`;
  const columns = [...COLUMNS, { title: "", show: (/** @type {any} */ row) => !row.exchange && html`<button class="button plain" aria-label=${`When those of ${row.name} are due`} onClick=${() => choose(row)}>When</button>` }];
  return html`
    <${Head} title="Delayed messages" text="What waits for its time, and when it is due." />
    <section class="card flush"><${Table} label="Delayed messages" columns=${columns} rows=${delayed.body} id=${(/** @type {any} */ row) => `${row.vhost}/${row.name}/${row.exchange}`} none="No message waits for its time." /></section>
    ${chosen && html`<${Due} key=${chosen.name} row=${chosen} />`}`;
}

/** Of the first messages of a queue those that are delayed, the next one first. @param {{row: any}} of */
function Due({ row }) {
  const [found, setFound] = useState(/** @type {any[] | null} */ (null));
  useEffect(() => {
    get(`page/messages/${path(row.vhost, row.name)}?${query({ limit: 100, delayed: "yes" })}`).then((answer) => setFound(answer.messages.sort((/** @type {any} */ a, /** @type {any} */ b) => a.deliver_at_ms - b.deliver_at_ms)), () => setFound([]));
  }, [row.name]);
  return html`<section class="card flush"><div class="card-head"><h2>Due in ${row.name}</h2></div>
    ${found ? html`<${Table} label=${`Due in ${row.name}`} columns=${DUE} rows=${found} id=${(/** @type {any} */ each) => each.position} none="None is delayed any more." />` : html`<p class="none">Loading …</p>`}
  </section>`;
}
