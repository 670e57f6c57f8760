/** Delayed messages: where some wait for their time, and what comes due next. */
import { get, path } from "../api.js";
import { count, lasting } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { Head, Waiting } from "../parts/head.js";
import { Table } from "../parts/table.js";
import { Time } from "../parts/time.js";
import { to } from "../route.js";
import { useWatch } from "../stream.js";

/** How long until then. @param {number} ms */
const until = (ms) => lasting(Math.max(0, (ms - Date.now()) / 1000));

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  { title: "Queue, topic or exchange", head: true, kind: "break", show: (row) => html`<a href=${row.exchange ? to("exchanges", row.vhost, row.name) : to("queues", row.vhost, row.name)}>${row.name}</a>${row.exchange && html` <span class="tag">exchange</span>`}` },
  { title: "Virtual host", kind: "aside", show: (row) => row.vhost },
  { title: "Not due yet", number: true, show: (row) => count(row.delayed) },
  { title: "Next in", number: true, show: (row) => (row.next_ms ? until(row.next_ms) : "–") },
];

/** @type {import("../parts/table.js").Column[]} */
const DUE = [
  { title: "Due", head: true, show: (each) => html`<${Time} ms=${each.deliver_at_ms} />` },
  { title: "In", number: true, show: (each) => until(each.deliver_at_ms) },
  { title: "Position", kind: "mono aside", show: (each) => each.position },
  { title: "Key", kind: "break", show: (each) => each.key ?? "" },
  { title: "Body", kind: "mono break", show: (each) => (each.encoding === "base64" ? "(bytes)" : each.body.slice(0, 120)) },
];

export function Delayed() {
  const { delayed } = useWatch({ delayed: "page/delayed" });
  const [chosen, choose] = useState(/** @type {any} */ (null));
  if (delayed?.status !== 200) return html`<${Head} title="Delayed messages" /><${Waiting} answer=${delayed} />`;
  const columns = [...COLUMNS, { title: "", show: (/** @type {any} */ row) => html`<button class="button plain" aria-label=${`When those of ${row.name} are due`} onClick=${() => choose(row)}>When</button>` }];
  return html`
    <${Head} title="Delayed messages" text="What waits for its time, and when it is due." />
    <section class="card flush"><${Table} label="Delayed messages" columns=${columns} rows=${delayed.body} id=${(/** @type {any} */ row) => `${row.vhost}/${row.name}/${row.exchange}`} none="No message waits for its time." /></section>
    ${chosen && html`<${Due} key=${`${chosen.vhost}/${chosen.name}/${chosen.exchange}`} row=${chosen} />`}`;
}

/** What comes due next in one of them. @param {{row: any}} of */
function Due({ row }) {
  const [found, setFound] = useState(/** @type {any[] | null} */ (null));
  const [failed, setFailed] = useState("");
  useEffect(() => {
    get(`page/${row.exchange ? "delayed-by" : "delayed"}/${path(row.vhost, row.name)}`).then(setFound, (error) => setFailed(error.message));
  }, []);
  const none = failed || "None is delayed any more.";
  return html`<section class="card flush" aria-label=${`Due in ${row.name}`}><div class="card-head"><h2>Due next in ${row.name}</h2><p class="quiet small">The soonest first.</p></div>
    ${found || failed ? html`<${Table} label=${`Due in ${row.name}`} columns=${DUE} rows=${found ?? []} id=${(/** @type {any} */ each) => `${each.position}/${each.batch_index}`} none=${none} />` : html`<p class="none" aria-busy="true">Loading …</p>`}
  </section>`;
}
