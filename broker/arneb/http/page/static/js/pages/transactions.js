/** Transactions of both protocols: what is open, and what it holds until it ends. */
import { call, ofShard, path } from "../api.js";
import { age, bytes, count, lasting } from "../format.js";
import { html, useState } from "../html.js";
import { Dialog } from "../parts/dialog.js";
import { Head, MissingShards, Waiting } from "../parts/head.js";
import { Table } from "../parts/table.js";
import { to } from "../route.js";
import { attempt } from "../said.js";
import { useWatch } from "../stream.js";

/** @type {import("../parts/table.js").Column[]} */
const AMQP = [
  { title: "Channel", head: true, kind: "break", show: (row) => html`<a href=${to("connections", row.connection)}>${row.name}</a>` },
  { title: "User", show: (row) => row.user },
  { title: "Virtual host", kind: "aside", show: (row) => row.vhost },
  { title: "Messages not committed", number: true, show: (row) => count(row.messages) },
  { title: "Acknowledgements not committed", number: true, show: (row) => count(row.acknowledgements) },
];

/** @type {import("../parts/table.js").Column[]} */
const PULSAR = [
  { title: "Transaction", head: true, show: (row) => row.id },
  { title: "User", kind: "aside", show: (row) => row.user || html`<span class="quiet">nobody</span>` },
  { title: "Topics", kind: "break", show: (row) => `${row.topics.map((/** @type {string} */ each) => each.replace(/^persistent:\/\//, "")).join(", ")}${row.topics_total > row.topics.length ? ` and ${count(row.topics_total - row.topics.length)} more` : ""}` },
  { title: "Open for", number: true, show: (row) => age(row.opened_ms) },
  { title: "Ends in", number: true, show: (row) => lasting(Math.max(0, (row.until_ms - Date.now()) / 1000)) },
  { title: "Entries", number: true, show: (row) => count(row.entries) },
  { title: "Size", number: true, kind: "aside", show: (row) => bytes(row.bytes) },
  { title: "Acknowledged", number: true, show: (row) => count(row.acknowledgements) },
];

/** @param {{user: any}} of */
export function Transactions({ user }) {
  const { list } = useWatch({ list: "page/transactions" });
  const [asked, ask] = useState(/** @type {any} */ (null));
  const shown = list?.status === 200 ? list.body : undefined;
  const abort = { title: "", show: (/** @type {any} */ row) => html`<button class="button plain" aria-label=${`Abort ${row.id}`} onClick=${() => ask(row)}>Abort</button>` };
  const shard = { title: "Shard", kind: "aside", show: (/** @type {any} */ row) => row.shard };
  const columns = [...PULSAR, ...(shown?.pulsar[0]?.shard ? [shard] : []), ...(user.is_administrator ? [abort] : [])];
  const more = (/** @type {number} */ total, /** @type {any[]} */ rows) => total > rows.length && html`<p class="quiet small card-head">${count(rows.length)} of ${count(total)} are shown.</p>`;
  return html`
    <${Head} title="Transactions" text="What is open, and what it holds until it ends." />
    <${MissingShards} of=${shown} />
    ${!shown && html`<${Waiting} answer=${list} />`}
    ${shown && html`
      <section class="card flush" aria-label="AMQP"><div class="card-head"><h2>AMQP</h2><p class="quiet small">Channels that commit by tx.commit.</p></div>
        <${Table} label="Transactions of AMQP" columns=${AMQP} rows=${shown.amqp} id=${(/** @type {any} */ row) => row.name} none="No channel has a transaction." />${more(shown.amqp_total, shown.amqp)}</section>
      <section class="card flush" aria-label="Pulsar"><div class="card-head"><h2>Pulsar</h2><p class="quiet small">The oldest first.</p></div>
        <${Table} label="Transactions of Pulsar" columns=${columns} rows=${shown.pulsar} id=${(/** @type {any} */ row) => `${row.shard} ${row.id}`} none="No transaction is open." />${more(shown.pulsar_total, shown.pulsar)}</section>`}
    ${asked && html`<${AbortDialog} transaction=${asked} onClose=${() => ask(null)} />`}`;
}

/** @param {{transaction: any, onClose: () => void}} of */
function AbortDialog({ transaction, onClose }) {
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    await attempt(() => call("DELETE", `page/pulsar/transactions/${path(transaction.number)}${ofShard(transaction.shard)}`), "Aborted.");
    onClose();
  };
  return html`<${Dialog} title="Abort this transaction?" onClose=${onClose}>
    <form onSubmit=${submit}>
      <p>What was sent in it is dropped, and what it acknowledged is delivered again. Its client is refused when it wants to commit.</p>
      <div class="row end"><button type="button" class="button" onClick=${onClose}>Cancel</button><button class="button bad">Abort it</button></div>
    </form>
  <//>`;
}
