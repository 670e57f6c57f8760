/** Exchanges in one list. */
import { path, put, query } from "../api.js";
import { rate } from "../format.js";
import { html, useState } from "../html.js";
import { Dialog } from "../parts/dialog.js";
import { Head, Waiting } from "../parts/head.js";
import { Search } from "../parts/search.js";
import { Pager, Table } from "../parts/table.js";
import { useVhosts } from "../parts/vhosts.js";
import { change, to } from "../route.js";
import { attempt } from "../said.js";
import { useWatch } from "../stream.js";

const PAGE_SIZE = 50;
const TYPES = ["direct", "topic", "fanout", "headers", "x-delayed-message", "x-consistent-hash"];

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  { title: "Name", sort: "name", head: true, kind: "break", show: (row) => html`<a href=${to("exchanges", row.vhost, row.name || "amq.default")}>${row.name || "(default exchange)"}</a>` },
  { title: "Virtual host", sort: "vhost", kind: "aside", show: (row) => row.vhost },
  { title: "Type", sort: "type", show: (row) => html`<span class="tag">${row.type}</span>` },
  { title: "Policy", kind: "aside", show: (row) => row.policy ?? "" },
  { title: "In", number: true, show: (row) => rate(row.message_stats?.publish_in_details?.rate ?? 0) },
  { title: "Out", number: true, show: (row) => rate(row.message_stats?.publish_out_details?.rate ?? 0) },
];

/** @param {{options: Record<string, string>}} of */
export function Exchanges({ options }) {
  const page = Number(options.page) || 1;
  const order = { sort: options.sort || "name", reverse: options.reverse === "yes" };
  const asked = query({ page, page_size: PAGE_SIZE, sort: order.sort, sort_reverse: order.reverse, name: options.name });
  const { list } = useWatch({ list: `exchanges?${asked}` });
  const [making, setMaking] = useState(false);
  const shown = list?.status === 200 ? list.body : undefined;
  return html`
    <${Head} title="Exchanges" text="Where messages come in, and how they find their queues.">
      <button class="button first" onClick=${() => setMaking(true)}>New exchange</button>
    <//>
    <${Search} name=${options.name} />
    ${!shown && html`<${Waiting} answer=${list} />`}
    ${shown && html`<section class="card flush"><${Table} label="Exchanges" columns=${COLUMNS} rows=${shown.items} order=${order} id=${(/** @type {any} */ row) => `${row.vhost}/${row.name}`}
        onOrder=${(/** @type {string} */ sort, /** @type {boolean} */ reverse) => change({ sort, reverse: reverse ? "yes" : "" })} /></section>
      <${Pager} page=${page} pages=${shown.page_count} total=${shown.filtered_count} of="exchanges" onPage=${(/** @type {number} */ to) => change({ page: to })} />`}
    ${making && html`<${MakeExchange} onClose=${() => setMaking(false)} />`}`;
}

/** @param {{onClose: () => void}} of */
function MakeExchange({ onClose }) {
  const vhosts = useVhosts();
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const type = String(form.get("type"));
    const work = () => put(`exchanges/${path(String(form.get("vhost")), String(form.get("name")))}`, { type, durable: true, arguments: type === "x-delayed-message" ? { "x-delayed-type": "topic" } : {} });
    if (await attempt(work, "Made.")) onClose();
  };
  return html`<${Dialog} title="New exchange" onClose=${onClose}>
    <form onSubmit=${submit}>
      <label>Name<input name="name" required autofocus /></label>
      <label>Virtual host<select name="vhost">${vhosts.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>
      <label>Type<select name="type">${TYPES.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>
      <div class="row end"><button type="button" class="button" onClick=${onClose}>Cancel</button><button class="button first">Make it</button></div>
    </form>
  <//>`;
}
