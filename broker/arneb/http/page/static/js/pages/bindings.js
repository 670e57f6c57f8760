/** Bindings: what leads to a queue or from an exchange, drawn and listed. */
import { get, path, post, remove } from "../api.js";
import { html, useEffect, useState } from "../html.js";
import { Table } from "../parts/table.js";
import { to } from "../route.js";
import { attempt } from "../said.js";

const DRAWN_MAX = 12;
const ROW = 40;

/** @param {{vhost: string, name?: string, exchange?: string}} of a queue's, or what an exchange leads to */
export function Bindings({ vhost, name, exchange }) {
  const [found, setFound] = useState(/** @type {any[] | undefined} */ (undefined));
  const from = exchange === undefined ? `queues/${path(vhost, name ?? "")}/bindings` : `exchanges/${path(vhost, exchange || "amq.default")}/bindings/source`;
  const load = () => get(from).then(setFound, () => setFound([]));
  useEffect(() => {
    load();
  }, [from]);
  if (!found) return html`<p class="none" aria-busy="true">Loading …</p>`;
  const unbind = async (/** @type {any} */ each) => {
    const kind = each.destination_type === "queue" ? "q" : "e";
    await attempt(() => remove(`bindings/${path(vhost)}/e/${path(each.source)}/${kind}/${path(each.destination, each.properties_key)}`), "Unbound.");
    load();
  };
  const columns = [
    { title: "From", head: true, kind: "break", show: (/** @type {any} */ each) => html`<a href=${to("exchanges", vhost, each.source || "amq.default")}>${each.source || "(default exchange)"}</a>` },
    { title: "Routing key", kind: "mono break", show: (/** @type {any} */ each) => each.routing_key },
    { title: "To", kind: "break", show: (/** @type {any} */ each) => html`<a href=${to(each.destination_type === "queue" ? "queues" : "exchanges", vhost, each.destination)}>${each.destination}</a>` },
    { title: "Arguments", kind: "mono break", show: (/** @type {any} */ each) => (Object.keys(each.arguments).length ? JSON.stringify(each.arguments) : "") },
    { title: "", show: (/** @type {any} */ each) => each.source && html`<button class="button plain" aria-label=${`Unbind ${each.destination} from ${each.source}`} onClick=${() => unbind(each)}>Unbind</button>` },
  ];
  return html`
    <section class="card"><h2>Bindings</h2><${Graph} bindings=${found} /></section>
    <section class="card flush"><${Table} label="Bindings" columns=${columns} rows=${found} id=${(/** @type {any} */ each) => [each.source, each.destination, each.properties_key].join("/")} none="Nothing is bound." /></section>
    <${Bind} vhost=${vhost} name=${name} exchange=${exchange} onDone=${load} />`;
}

/** @param {{bindings: any[]}} of */
function Graph({ bindings }) {
  const shown = bindings.slice(0, DRAWN_MAX);
  const sources = [...new Set(shown.map((each) => each.source || "(default exchange)"))];
  const ends = [...new Set(shown.map((each) => each.destination))];
  const height = Math.max(sources.length, ends.length, 1) * ROW + 10;
  const y = (/** @type {string[]} */ of, /** @type {string} */ each) => ((of.indexOf(each) + 0.5) * height) / of.length;
  const label = shown.map((each) => `${each.source || "default exchange"} to ${each.destination} by ${each.routing_key || "any key"}`).join("; ");
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Graph of bindings"><svg class="drawing graph" viewBox="0 0 760 ${height}" role="img" aria-label=${label || "No bindings"}>
    ${shown.map((each) => {
      const [y1, y2] = [y(sources, each.source || "(default exchange)"), y(ends, each.destination)];
      return html`<path class="edge" d=${`M240,${y1}C380,${y1} 380,${y2} 520,${y2}`} /><text class="note" x="380" y=${(y1 + y2) / 2 - 4} text-anchor="middle">${cut(each.routing_key, 24)}</text>`;
    })}
    ${sources.map((each) => html`<${Node} x=${10} y=${y(sources, each)} text=${each} />`)}
    ${ends.map((each) => html`<${Node} x=${520} y=${y(ends, each)} text=${each} here />`)}
  </svg></div>
  ${bindings.length > DRAWN_MAX && html`<p class="quiet small">The first ${DRAWN_MAX} of ${bindings.length} are drawn.</p>`}`;
}

/** @param {{x: number, y: number, text: string, here?: boolean}} of */
function Node({ x, y, text, here }) {
  return html`<g><rect class="box ${here ? "here" : ""}" x=${x} y=${y - 14} width="230" height="28" rx="7" /><text x=${x + 115} y=${y + 4} text-anchor="middle">${cut(text, 32)}</text></g>`;
}

/** @param {string} text @param {number} most */
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** @param {{vhost: string, name?: string, exchange?: string, onDone: () => void}} of */
function Bind({ vhost, name, exchange, onDone }) {
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const other = String(form.get("other"));
    const [source, queue] = exchange === undefined ? [other, name ?? ""] : [exchange, other];
    const work = () => post(`bindings/${path(vhost)}/e/${path(source)}/q/${path(queue)}`, { routing_key: String(form.get("key")), arguments: {} });
    if (await attempt(work, "Bound.")) onDone();
  };
  return html`<form class="card fields" aria-label="Bind" onSubmit=${submit}>
    <label>${exchange === undefined ? "From the exchange" : "To the queue"}<input name="other" required /></label>
    <label>Routing key<input name="key" /></label>
    <div><button class="button">Bind</button></div>
  </form>`;
}
