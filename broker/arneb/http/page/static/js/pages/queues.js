/** Queues and topics in one list: pages, search and order are the broker's work. */
import { path, put, query } from "../api.js";
import { age, bytes, count, rate } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { Dialog } from "../parts/dialog.js";
import { Head, MissingShards, Waiting } from "../parts/head.js";
import { Search } from "../parts/search.js";
import { Spark } from "../parts/spark.js";
import { Pager, Table } from "../parts/table.js";
import { useVhosts } from "../parts/vhosts.js";
import { change, to } from "../route.js";
import { attempt } from "../said.js";
import { useWatch } from "../stream.js";

const PAGE_SIZE = 50;

/** Where a row leads. @param {any} row */
export const place = (row) => (row.vhost ? to("queues", row.vhost, row.name) : to("topics", row.topic));

/** What stands in the list. @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  { title: "Name", sort: "name", head: true, kind: "break name", show: (row) => html`<${Name} row=${row} />` },
  { title: "Virtual host", sort: "vhost", kind: "aside", show: (row) => row.vhost },
  { title: "Shard", kind: "aside", show: (row) => row.shard ?? "" },
  { title: "Type", sort: "type", kind: "aside", show: (row) => html`<span class="tag">${row.type}</span>` },
  { title: "Messages", sort: "messages", number: true, show: (row) => count(row.messages) },
  { title: "At consumers", sort: "unacknowledged", number: true, kind: "aside", show: (row) => count(row.unacknowledged) },
  { title: "Size", sort: "bytes", number: true, kind: "aside", show: (row) => bytes(row.bytes) },
  { title: "Oldest", sort: "age", number: true, show: (row) => age(row.oldest_ms) },
  { title: "In", sort: "in", number: true, show: (row) => rate(row.in) },
  { title: "Out", sort: "out", number: true, show: (row) => rate(row.out) },
  { title: "Consumers", sort: "consumers", number: true, show: (row) => count(row.consumers) },
  { title: "Subscriptions", sort: "subscriptions", number: true, kind: "aside", show: (row) => count(row.subscriptions) },
  { title: "Two minutes", kind: "aside", show: (row) => html`<${Spark} values=${row.spark} label="Messages" />` },
];

/** The name, and why it grows. @param {{row: any}} of */
function Name({ row }) {
  return html`<a href=${place(row)}>${row.name || "(no name)"}</a>
    <span class="why ${row.attention ? "look" : ""}">${row.why}</span>`;
}

/** @param {{options: Record<string, string>}} of */
export function Queues({ options }) {
  const page = Number(options.page) || 1;
  const order = { sort: options.sort || "messages", reverse: options.reverse !== "no" };
  const vhost = options.vhost ?? "";
  const asked = query({ page, page_size: PAGE_SIZE, sort: order.sort, sort_reverse: order.reverse, name: options.name, use_regex: options.pattern === "yes" ? true : undefined });
  const { list } = useWatch({ list: `page/topics${vhost ? `/${path(vhost)}` : ""}?${asked}` });
  const [making, setMaking] = useState(false);
  const vhosts = useVhosts();
  const hidden = [vhosts.length > 1 ? "" : "Virtual host", list?.body?.items?.[0]?.shard ? "" : "Shard"];
  const columns = COLUMNS.filter((each) => !hidden.includes(each.title));
  const isGone = list?.status === 400 && page > 1;
  useEffect(() => {
    if (isGone) change({ page: "" });
  }, [isGone]);
  const shown = list?.status === 200 ? list.body : undefined;
  return html`
    <${Head} title="Queues and topics" text="Everything that holds messages, as both protocols see it.">
      <button class="button first" onClick=${() => setMaking(true)}>New queue</button>
    <//>
    <${Filters} options=${options} />
    <${MissingShards} of=${shown} />
    ${!shown && html`<${Waiting} answer=${list} />`}
    ${shown &&
    html`<section class="card flush" aria-label="Queues and topics">
        <${Table} label="Queues and topics" columns=${columns} rows=${shown.items} id=${(/** @type {any} */ row) => row.topic} order=${order}
          none=${options.name ? "No name fits." : "There is no queue and no topic yet. Declare one from a client, or here."}
          onOrder=${(/** @type {string} */ sort, /** @type {boolean} */ reverse) => change({ sort, reverse: reverse ? "" : "no", page: "" })} />
      </section>
      <${Pager} page=${page} pages=${shown.page_count} total=${shown.filtered_count} of=${shown.filtered_count === 1 ? "queue or topic" : "queues and topics"} onPage=${(/** @type {number} */ to) => change({ page: to })} />`}
    ${making && html`<${MakeQueue} vhost=${vhost} onClose=${() => setMaking(false)} />`}`;
}

/** @param {{options: Record<string, string>}} of */
function Filters({ options }) {
  const vhosts = useVhosts();
  return html`<${Search} name=${options.name}>
    <label class="inline"><input type="checkbox" checked=${options.pattern === "yes"} onChange=${(/** @type {any} */ e) => change({ pattern: e.target.checked ? "yes" : "", page: "" })} />Regular expression</label>
    ${vhosts.length > 1 &&
    html`<select aria-label="Virtual host" value=${options.vhost ?? ""} onChange=${(/** @type {any} */ e) => change({ vhost: e.target.value, page: "" })}>
      <option value="">All virtual hosts</option>
      ${vhosts.map((each) => html`<option value=${each}>${each}</option>`)}
    </select>`}
  <//>`;
}

/** The longest queues, for the overview. */
export function TopRows() {
  const asked = query({ page: 1, page_size: 5, sort: "messages", sort_reverse: true });
  const { top } = useWatch({ top: `page/topics?${asked}` });
  const rows = (top?.status === 200 ? top.body.items : []).filter((/** @type {any} */ row) => row.messages > 0);
  const columns = COLUMNS.filter((each) => ["Name", "Messages", "Oldest", "In", "Out", "Two minutes"].includes(each.title)).map(({ sort, ...each }) => each);
  return html`<section class="card flush" aria-label="Longest queues">
    <div class="row spread card-head"><h2>Longest queues</h2><a href=${to("queues")}>All</a></div>
    <${Table} label="Longest queues" columns=${columns} rows=${rows} id=${(/** @type {any} */ row) => row.topic} none="No messages wait anywhere." />
  </section>`;
}

/** @param {{vhost: string, onClose: () => void}} of */
function MakeQueue({ vhost, onClose }) {
  const vhosts = useVhosts();
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const name = String(form.get("name"));
    const into = String(form.get("vhost"));
    const type = String(form.get("type"));
    const body = { durable: type !== "transient", auto_delete: false, arguments: type === "transient" ? {} : { "x-queue-type": type } };
    if (await attempt(() => put(`queues/${path(into, name)}`, body), `Made ${name}.`)) onClose();
  };
  return html`<${Dialog} title="New queue" onClose=${onClose}>
    <form onSubmit=${submit}>
      <label>Name<input name="name" required autofocus autocomplete="off" /></label>
      <label>Virtual host<select name="vhost">${vhosts.map((each) => html`<option value=${each} selected=${each === (vhost || "/")}>${each}</option>`)}</select></label>
      <label>Type<select name="type">
        <option value="classic">Classic: durable</option>
        <option value="quorum">Quorum: durable, counts redeliveries</option>
        <option value="stream">Stream: read again and again</option>
        <option value="transient">Transient: gone with the broker</option>
      </select></label>
      <div class="row end"><button type="button" class="button" onClick=${onClose}>Cancel</button><button class="button first">Make it</button></div>
    </form>
  <//>`;
}
