/** One connection of Pulsar's: its producers and consumers, and closing it or any consumer. */
import { call, ofShard, path } from "../api.js";
import { age, bytes, count } from "../format.js";
import { html, useState } from "../html.js";
import { Dialog } from "../parts/dialog.js";
import { Figures, Head, Waiting } from "../parts/head.js";
import { Meter } from "../parts/meter.js";
import { Table } from "../parts/table.js";
import { Time } from "../parts/time.js";
import { to } from "../route.js";
import { attempt } from "../said.js";
import { useWatch } from "../stream.js";

/** A topic as a link. @param {{name: string}} of */
const TopicLink = ({ name }) => html`<a href=${to("topics", name)}>${name.replace(/^persistent:\/\//, "")}</a>`;

/** @type {import("../parts/table.js").Column[]} */
const PRODUCERS = [
  { title: "Producer", head: true, kind: "break", show: (each) => each.name },
  { title: "Topic", kind: "break", show: (each) => html`<${TopicLink} name=${each.topic} />` },
  { title: "Messages", number: true, show: (each) => count(each.messages) },
  { title: "Bytes", number: true, show: (each) => bytes(each.bytes) },
];

/** @param {{names: string[]}} of */
export function PulsarConnection({ names }) {
  const [number, shard] = names;
  const place = `page/pulsar/connections/${path(number ?? "")}`;
  const { connection } = useWatch({ connection: `${place}${ofShard(shard)}` });
  const [asked, ask] = useState(/** @type {any} */ (null));
  const shown = connection?.status === 200 ? connection.body : undefined;
  if (!shown) return html`<${Head} title="Connection" /><${Waiting} answer=${connection} />`;
  const consumers = [
    { title: "Consumer", head: true, kind: "break", show: (/** @type {any} */ each) => each.name },
    { title: "Topic", kind: "break", show: (/** @type {any} */ each) => html`<${TopicLink} name=${each.topic} />` },
    { title: "Subscription", kind: "break", show: (/** @type {any} */ each) => each.subscription },
    { title: "In flight", number: true, show: (/** @type {any} */ each) => count(each.in_flight) },
    { title: "Queue used", show: (/** @type {any} */ each) => html`<${Meter} label="Receiver queue" is=${each.in_flight} of=${each.in_flight + each.permits} />` },
    { title: "Messages", number: true, show: (/** @type {any} */ each) => count(each.messages) },
    { title: "", show: (/** @type {any} */ each) => html`<button class="button plain" aria-label=${`Close ${each.name}`} onClick=${() => ask(each)}>Close</button>` },
  ];
  return html`
    <${Head} title=${shown.address} text=${`${shown.role || "nobody who had to say who it is"}${shown.original ? `, on behalf of ${shown.original}` : ""}, Pulsar's protocol`}>
      <button class="button bad" onClick=${() => ask({})}>Close</button>
    <//>
    <${Figures} figures=${[
      { title: "From client", value: `${bytes(shown.received)}/s`, more: bytes(shown.received_bytes) },
      { title: "To client", value: `${bytes(shown.sent)}/s`, more: bytes(shown.sent_bytes) },
      { title: "Producers", value: count(shown.producers_total) },
      { title: "Consumers", value: count(shown.consumers_total) },
    ]} />
    <section class="card"><h2>Client</h2><dl class="facts">
      <dt>Library</dt><dd>${shown.client || "–"}</dd>
      <dt>Connected</dt><dd><${Time} ms=${shown.opened_ms} />, ${age(shown.opened_ms)} ago</dd>
      <dt>TLS</dt><dd>${shown.secured ? "yes" : "no"}</dd>
      <dt>State</dt><dd>${shown.is_full ? "does not read what it is sent" : "running"}</dd>
    </dl></section>
    <section class="card flush" aria-label="Producers"><div class="card-head"><h2>Producers</h2></div>
      <${Table} label="Producers" columns=${PRODUCERS} rows=${shown.producers} id=${(/** @type {any} */ each) => `${each.id}/${each.name}`} none="It produces nothing." /></section>
    <section class="card flush" aria-label="Consumers"><div class="card-head"><h2>Consumers</h2></div>
      <${Table} label="Consumers" columns=${consumers} rows=${shown.consumers} id=${(/** @type {any} */ each) => String(each.key)} none="It consumes nothing." /></section>
    ${asked && html`<${CloseDialog} place=${place} shard=${shard} consumer=${asked.key === undefined ? null : asked} onClose=${() => ask(null)} />`}`;
}

/** @param {{place: string, shard?: string, consumer: any, onClose: () => void}} of */
export function CloseDialog({ place, shard, consumer, onClose }) {
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const what = consumer ? `${place}/consumers/${consumer.key}` : place;
    if ((await attempt(() => call("DELETE", `${what}${ofShard(shard)}`), "Closed.")) && !consumer) location.hash = to("connections");
    onClose();
  };
  const what = consumer ? "consumer" : "connection";
  return html`<${Dialog} title=${`Close this ${what}?`} onClose=${onClose}>
    <form onSubmit=${submit}>
      <p>${consumer ? `${consumer.name}: what it had not acknowledged is delivered to others.` : "Its producers and consumers go. What they had not acknowledged is delivered to others."} Most clients come again by themselves.</p>
      <div class="row end"><button type="button" class="button" onClick=${onClose}>Cancel</button><button class="button bad">Close the ${what}</button></div>
    </form>
  <//>`;
}
