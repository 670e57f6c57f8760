/** Transactions of AMQP: channels that have selected them, and what they have not committed. */
import { query } from "../api.js";
import { count } from "../format.js";
import { html } from "../html.js";
import { Head, Waiting } from "../parts/head.js";
import { Table } from "../parts/table.js";
import { to } from "../route.js";
import { useWatch } from "../stream.js";

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  { title: "Channel", head: true, kind: "break", show: (row) => html`<a href=${to("connections", row.connection_details?.name ?? "")}>${row.name}</a>` },
  { title: "User", show: (row) => row.user },
  { title: "Messages not committed", number: true, show: (row) => count(row.messages_uncommitted) },
  { title: "Acknowledgements not committed", number: true, show: (row) => count(row.acks_uncommitted) },
];

export function Transactions() {
  const { list } = useWatch({ list: `channels?${query({ page: 1, page_size: 100, sort: "transactional", sort_reverse: true })}` });
  const shown = list?.status === 200 ? list.body.items.filter((/** @type {any} */ row) => row.transactional) : undefined;
  return html`
    <${Head} title="Transactions" text="Channels that commit by tx.commit, and what they hold until then." />
    ${shown ? html`<section class="card flush"><${Table} label="Transactions" columns=${COLUMNS} rows=${shown} id=${(/** @type {any} */ row) => row.name} none="No channel has a transaction." /></section>` : html`<${Waiting} answer=${list} />`}`;
}
