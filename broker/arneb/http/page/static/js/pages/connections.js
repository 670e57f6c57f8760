/** Connections of all clients, the noisiest first. */
import { query } from "../api.js";
import { bytes, count } from "../format.js";
import { html } from "../html.js";
import { Head, Waiting } from "../parts/head.js";
import { Pager, Table } from "../parts/table.js";
import { change, to } from "../route.js";
import { useWatch } from "../stream.js";

const PAGE_SIZE = 50;

/** More than this share of all bytes a second, and a connection is the noisy one. */
const NOISY = 0.5;
const NOISY_BYTES_MIN = 100 * 1024;

/** @param {any} row */
const flow = (row) => (row.recv_oct_details?.rate ?? 0) + (row.send_oct_details?.rate ?? 0);

/** @param {{options: Record<string, string>}} of */
export function Connections({ options }) {
  const page = Number(options.page) || 1;
  const order = { sort: options.sort || "recv_oct_details.rate", reverse: options.reverse !== "no" };
  const asked = query({ page, page_size: PAGE_SIZE, sort: order.sort, sort_reverse: order.reverse, name: options.name });
  const { list } = useWatch({ list: `connections?${asked}` });
  const shown = list?.status === 200 ? list.body : undefined;
  const total = (shown?.items ?? []).reduce((/** @type {number} */ sum, /** @type {any} */ row) => sum + flow(row), 0);
  const isNoisy = (/** @type {any} */ row) => shown.items.length > 1 && flow(row) > NOISY_BYTES_MIN && flow(row) > NOISY * total;
  /** @type {import("../parts/table.js").Column[]} */
  const columns = [
    { title: "Connection", sort: "name", head: true, kind: "break", show: (row) => html`<a href=${to("connections", row.name)}>${row.user_provided_name || row.client_properties?.connection_name || row.name}</a>${isNoisy(row) && html` <span class="tag warn">noisy</span>`}` },
    { title: "User", sort: "user", show: (row) => row.user },
    { title: "Virtual host", sort: "vhost", kind: "aside", show: (row) => row.vhost },
    { title: "Protocol", sort: "protocol", kind: "aside", show: (row) => `${row.protocol}${row.ssl ? ", TLS" : ""}` },
    { title: "State", sort: "state", show: (row) => html`<span class="tag ${row.state === "running" ? "good" : "warn"}">${row.state}</span>` },
    { title: "Channels", sort: "channels", number: true, show: (row) => count(row.channels) },
    { title: "From client", sort: "recv_oct_details.rate", number: true, show: (row) => `${bytes(row.recv_oct_details?.rate ?? 0)}/s` },
    { title: "To client", sort: "send_oct_details.rate", number: true, show: (row) => `${bytes(row.send_oct_details?.rate ?? 0)}/s` },
  ];
  return html`
    <${Head} title="Connections" text="Clients over AMQP. One that moves most of all bytes is marked as noisy." />
    ${!shown && html`<${Waiting} answer=${list} />`}
    ${shown && html`<section class="card flush"><${Table} label="Connections" columns=${columns} rows=${shown.items} order=${order} id=${(/** @type {any} */ row) => row.name} none="Nobody is connected."
        onOrder=${(/** @type {string} */ sort, /** @type {boolean} */ reverse) => change({ sort, reverse: reverse ? "" : "no", page: "" })} /></section>
      <${Pager} page=${page} pages=${shown.page_count} total=${shown.filtered_count} of="connections" onPage=${(/** @type {number} */ to) => change({ page: to })} />`}`;
}
