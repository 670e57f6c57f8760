/** Subscriptions of one log: their cursors drawn over its ledgers, and who consumes by them. */
import { path } from "../api.js";
import { age, bytes, count } from "../format.js";
import { html, useState } from "../html.js";
import { Meter } from "../parts/meter.js";
import { Table } from "../parts/table.js";
import { to } from "../route.js";
import { CloseDialog } from "./pulsar_connection.js";

const WIDTH = 1000;
const BAR = 22;

/** What screen readers and figures are told of a ledger. @param {any} ledger */
const told = (ledger) => `ledger ${ledger.id}: ${count(ledger.entries)} entries, ${bytes(ledger.bytes)}`;

/** A position as numbers. @param {string} text */
const parsed = (text) => text.split(":").map(Number);

/** @param {{queue: any}} of */
export function Subscriptions({ queue }) {
  return html`
    <section class="card"><h2>Cursors over the ledgers</h2>
      <p class="quiet small">Each bar is the log from its first entry that is kept (left) to its newest (right). Green is acknowledged, also what stands alone behind the red mark, before which everything is done; amber is with consumers or not due yet; blue waits.</p>
      ${queue.details.map((/** @type {any} */ each) => html`<${Cursor} key=${each.name} of=${each} ledgers=${queue.ledgers} />`)}
      ${!queue.details.length && html`<p class="none">Nobody subscribes.</p>`}
    </section>
    ${queue.details.map((/** @type {any} */ each) => html`<${Consumers} key=${each.name} of=${each} />`)}`;
}

/** @param {{of: any, ledgers: any[]}} of */
function Cursor({ of, ledgers }) {
  const everything = ledgers.reduce((sum, each) => sum + each.entries, 0) || 1;
  const at = placed(of.mark_delete, ledgers) / everything;
  const read = placed(of.read_position, ledgers) / everything;
  const label = `${of.name}: done up to ${of.mark_delete}, ${count(of.holes)} holes behind it, ${count(of.in_flight)} in flight, ${count(of.delayed)} delayed, ${count(of.ready)} ready`;
  let start = 0;
  return html`<div class="stack">
    <h3>${of.name} <span class="tag">${of.type ?? "nobody attached"}</span></h3>
    <svg class="drawing" viewBox="0 0 ${WIDTH} ${BAR + 6}" role="img" aria-label=${label} preserveAspectRatio="none" height="28">
      <rect class="wait" x="0" y="3" width=${WIDTH} height=${BAR} />
      <rect class="done" x="0" y="3" width=${Math.max(0, at * WIDTH)} height=${BAR} />
      ${of.in_flight + of.delayed > 0 && html`<rect class="away" x=${at * WIDTH} y="3" width=${Math.max(0, (read - at) * WIDTH)} height=${BAR} />`}
      ${of.hole_parts.map((/** @type {number[]} */ [begin, entries, acknowledged]) => html`<rect class="done" x=${(begin / everything) * WIDTH} y="3" width=${(entries / everything) * WIDTH} height=${BAR} opacity=${0.3 + (0.7 * acknowledged) / entries}><title>${count(acknowledged)} of ${count(entries)} acknowledged</title></rect>`)}
      ${ledgers.map((each) => {
        const x = (start / everything) * WIDTH;
        start += each.entries;
        return html`<line class="edge" x1=${x} x2=${x} y1="3" y2=${BAR + 3}><title>${told(each)}</title></line>`;
      })}
      <line class="edge" x1=${read * WIDTH} x2=${read * WIDTH} y1="0" y2=${BAR + 6} stroke-dasharray="4 3" />
      <line class="mark" x1=${at * WIDTH} x2=${at * WIDTH} y1="0" y2=${BAR + 6} />
    </svg>
    <dl class="facts">
      <dt>Mark-delete</dt><dd class="mono">${of.mark_delete}</dd>
      <dt>Read up to</dt><dd class="mono">${of.read_position}</dd>
      <dt>Ready, in flight</dt><dd>${count(of.ready)}, ${count(of.in_flight)}</dd>
      <dt>Holes, delayed</dt><dd>${count(of.holes)}, ${count(of.delayed)}</dd>
      <dt>Oldest</dt><dd>${age(of.oldest_ms)}</dd>
    </dl>
  </div>`;
}

/** How many entries of the ledgers stand before a position. @param {string} text @param {any[]} ledgers */
function placed(text, ledgers) {
  const [ledger, entry] = parsed(text);
  let before = 0;
  for (const each of ledgers) {
    if (each.id < ledger) before += each.entries;
    else if (each.id === ledger) before += Math.min(each.entries, entry + 1);
  }
  return before;
}

/** @param {{of: any}} of */
function Consumers({ of }) {
  const [asked, ask] = useState(/** @type {any} */ (null));
  const most = Math.max(0, ...of.consumers.map((/** @type {any} */ each) => each.in_flight));
  const columns = [
    { title: "Consumer", head: true, kind: "break", show: (/** @type {any} */ each) => (each.pulsar ? html`<a href=${to("pulsar-connections", String(each.pulsar.connection))}>${each.name}</a>` : each.name) },
    { title: "In flight", number: true, show: (/** @type {any} */ each) => count(each.in_flight) },
    { title: "Prefetch used", show: (/** @type {any} */ each) => html`<${Meter} label="Prefetch" is=${each.in_flight} of=${each.in_flight + each.permits} />` },
    { title: "Delivered", number: true, show: (/** @type {any} */ each) => count(each.delivered_total) },
    { title: "State", show: (/** @type {any} */ each) => html`<${State} each=${each} most=${most} among=${of.consumers.length} total=${of.in_flight} />` },
    { title: "", show: (/** @type {any} */ each) => each.pulsar && html`<button class="button plain" aria-label=${`Close ${each.name}`} onClick=${() => ask(each)}>Close</button>` },
  ];
  return html`<section class="card flush" aria-label=${`Consumers of ${of.name}`}>
    <div class="card-head"><h2>Consumers of ${of.name}</h2></div>
    <${Table} label=${`Consumers of ${of.name}`} columns=${columns} rows=${of.consumers} id=${(/** @type {any} */ each) => `${each.pulsar?.connection}/${each.pulsar?.key}/${each.name}`} none="Nobody consumes." />
    ${asked && html`<${CloseDialog} place=${`page/pulsar/connections/${path(String(asked.pulsar.connection))}`} consumer=${{ name: asked.name, key: asked.pulsar.key }} onClose=${() => ask(null)} />`}
  </section>`;
}

/** @param {any} of */
function State({ each, most, among, total }) {
  if (!each.writable) return html`<span class="tag bad">does not read its socket</span>`;
  if (among > 1 && each.in_flight === most && most >= 10 && most > total * 0.5) return html`<span class="tag warn">slow: holds the most</span>`;
  if (!each.permits && each.in_flight) return html`<span class="tag warn">at its prefetch</span>`;
  return html`<span class="tag good">takes messages</span>`;
}
