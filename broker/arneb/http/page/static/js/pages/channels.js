/** Channels of AMQP, and what goes through them. */
import { query } from "../api.js";
import { count, rate } from "../format.js";
import { html } from "../html.js";
import { Head, Waiting } from "../parts/head.js";
import { Meter } from "../parts/meter.js";
import { Pager, Table } from "../parts/table.js";
import { change, to } from "../route.js";
import { useWatch } from "../stream.js";

const PAGE_SIZE = 50;

/** What is shown of a channel. @type {import("../parts/table.js").Column[]} */
export const CHANNELS = [
  { title: "Channel", sort: "name", head: true, kind: "break", show: (row) => html`<a href=${to("connections", row.connection_details?.name ?? "")}>${row.name}</a>` },
  { title: "User", sort: "user", kind: "aside", show: (row) => row.user },
  { title: "Mode", kind: "aside", show: (row) => html`${row.confirm && html`<span class="tag">confirms</span>`} ${row.transactional && html`<span class="tag accent">transaction</span>`}` },
  { title: "Consumers", sort: "consumer_count", number: true, show: (row) => count(row.consumer_count) },
  { title: "Prefetch", sort: "prefetch_count", number: true, show: (row) => (row.prefetch_count ? count(row.prefetch_count) : "no limit") },
  { title: "Used", kind: "aside", show: (row) => (row.prefetch_count ? html`<${Meter} label="Prefetch" is=${row.messages_unacknowledged} of=${row.prefetch_count * Math.max(1, row.consumer_count)} />` : "") },
  { title: "Unacknowledged", sort: "messages_unacknowledged", number: true, show: (row) => count(row.messages_unacknowledged) },
  { title: "Published", number: true, show: (row) => rate(row.message_stats?.publish_details?.rate ?? 0) },
  { title: "Delivered", number: true, show: (row) => rate(row.message_stats?.deliver_get_details?.rate ?? 0) },
];

/** @param {{options: Record<string, string>}} of */
export function Channels({ options }) {
  const page = Number(options.page) || 1;
  const order = { sort: options.sort || "messages_unacknowledged", reverse: options.reverse !== "no" };
  const { list } = useWatch({ list: `channels?${query({ page, page_size: PAGE_SIZE, sort: order.sort, sort_reverse: order.reverse })}` });
  const shown = list?.status === 200 ? list.body : undefined;
  return html`
    <${Head} title="Channels" text="Who holds messages, and how many more each would take." />
    ${!shown && html`<${Waiting} answer=${list} />`}
    ${shown && html`<section class="card flush"><${Table} label="Channels" columns=${CHANNELS} rows=${shown.items} order=${order} id=${(/** @type {any} */ row) => row.name} none="No channel is open."
        onOrder=${(/** @type {string} */ sort, /** @type {boolean} */ reverse) => change({ sort, reverse: reverse ? "" : "no" })} /></section>
      <${Pager} page=${page} pages=${shown.page_count} total=${shown.filtered_count} of="channels" onPage=${(/** @type {number} */ to) => change({ page: to })} />`}`;
}
