/** Connections of both protocols, the noisiest first. */
import { query } from "../api.js";
import { age, bytes, count } from "../format.js";
import { html } from "../html.js";
import { Head, MissingShards, Waiting } from "../parts/head.js";
import { Search } from "../parts/search.js";
import { Pager, Table } from "../parts/table.js";
import { change, to } from "../route.js";
import { useWatch } from "../stream.js";

const PAGE_SIZE = 50;

/** Where a connection leads. @param {any} row */
const place = (row) => (row.number === null ? to("connections", row.name) : to("pulsar-connections", String(row.number), ...(row.shard ? [row.shard] : [])));

/** @param {any} row */
function holds(row) {
  if (row.number === null) return row.parts === 1 ? "1 channel" : `${count(row.parts)} channels`;
  return row.parts === 1 ? "1 producer or consumer" : `${count(row.parts)} producers and consumers`;
}

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  { title: "Connection", sort: "name", head: true, kind: "break", show: (row) => html`<a href=${place(row)}>${row.shown_name}</a>${row.noisy && html` <span class="tag warn">noisy</span>`}` },
  { title: "User", sort: "user", show: (row) => row.user || html`<span class="quiet">nobody</span>` },
  { title: "Virtual host", sort: "vhost", kind: "aside", show: (row) => row.vhost },
  { title: "Shard", kind: "aside", show: (row) => row.shard ?? "" },
  { title: "Protocol", sort: "protocol", kind: "aside nowrap", show: (row) => `${row.protocol}${row.secured ? ", TLS" : ""}` },
  { title: "State", sort: "state", show: (row) => html`<span class="tag ${row.state === "running" ? "good" : "warn"}">${row.state}</span>` },
  { title: "Holds", sort: "parts", number: true, kind: "aside", show: holds },
  { title: "Open for", sort: "opened", number: true, kind: "aside", show: (row) => age(row.opened_ms) },
  { title: "From client", sort: "received", number: true, show: (row) => `${bytes(row.received)}/s` },
  { title: "To client", sort: "sent", number: true, show: (row) => `${bytes(row.sent)}/s` },
];

/** @param {{options: Record<string, string>}} of */
export function Connections({ options }) {
  const page = Number(options.page) || 1;
  const order = { sort: options.sort || "flow", reverse: options.reverse !== "no" };
  const asked = query({ page, page_size: PAGE_SIZE, sort: order.sort, sort_reverse: order.reverse, name: options.name });
  const { list } = useWatch({ list: `page/connections?${asked}` });
  const shown = list?.status === 200 ? list.body : undefined;
  const columns = shown?.items[0]?.shard ? COLUMNS : COLUMNS.filter((each) => each.title !== "Shard");
  return html`
    <${Head} title="Connections" text="Clients over AMQP and over Pulsar's protocol. One that moves most of all bytes is marked as noisy." />
    <${Search} name=${options.name} />
    <${MissingShards} of=${shown} />
    ${!shown && html`<${Waiting} answer=${list} />`}
    ${shown && html`<section class="card flush"><${Table} label="Connections" columns=${columns} rows=${shown.items} order=${order} id=${(/** @type {any} */ row) => place(row)} none=${options.name ? "No name fits." : "Nobody is connected."}
        onOrder=${(/** @type {string} */ sort, /** @type {boolean} */ reverse) => change({ sort, reverse: reverse ? "" : "no", page: "" })} /></section>
      <${Pager} page=${page} pages=${shown.page_count} total=${shown.filtered_count} of=${shown.filtered_count === 1 ? "connection" : "connections"} onPage=${(/** @type {number} */ to) => change({ page: to })} />`}`;
}
