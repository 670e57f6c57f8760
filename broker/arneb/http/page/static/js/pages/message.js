/** One message: its body in the form that suits it, its properties and its times. */
import { age, count, counted } from "../format.js";
import { html, useState } from "../html.js";
import { Time } from "../parts/time.js";

const HEX_ROW = 16;
const HEX_BYTES_MAX = 4096;

/** What a schema's reading is called. @param {any} message */
const schemaForm = (message) => (message.schema?.text === undefined ? "" : message.schema.type === "AVRO" ? "Avro" : `as ${message.schema.type}`);

/** Ways to show a body. */
const FORMS = /** @type {Record<string, (message: any) => string>} */ ({
  JSON: (message) => JSON.stringify(JSON.parse(text(message)), null, 2),
  text,
  hex: (message) => hex(bytesOf(message)),
});

/** @param {{message: any}} of */
export function Body({ message }) {
  const bySchema = schemaForm(message);
  const [form, setForm] = useState(bySchema || (message.encoding === "json" ? "JSON" : message.encoding === "base64" ? "hex" : "text"));
  if (message.is_null) return html`<p class="quiet small">No body (a tombstone)</p>`;
  let shown;
  try {
    shown = form === bySchema ? message.schema.text : FORMS[form](message);
  } catch {
    shown = text(message);
  }
  return html`<div class="stack">
    <div class="row small" role="group" aria-label="Show the body as">
      ${[...(bySchema ? [bySchema] : []), ...Object.keys(FORMS)].map((each) => html`<button class="button plain" aria-pressed=${each === form} disabled=${each === form} onClick=${() => setForm(each)}>${each}</button>`)}
    </div>
    <pre class="body" tabindex="0" aria-label="Body">${shown || " "}</pre>
    ${message.schema && html`<p class="quiet small">Schema ${message.schema.type}, version ${message.schema.version}${message.schema.problem ? `; the body does not fit it: ${message.schema.problem}` : ""}</p>`}
    ${message.is_cut && html`<p class="quiet small">Only the beginning of ${count(message.bytes)} bytes is shown.</p>`}
  </div>`;
}

/** @param {any} message @returns {string} */
function text(message) {
  return message.encoding === "base64" ? new TextDecoder().decode(bytesOf(message)) : message.body;
}

/** @param {any} message @returns {Uint8Array} */
function bytesOf(message) {
  if (message.encoding !== "base64") return new TextEncoder().encode(message.body);
  return Uint8Array.from(atob(message.body), (each) => each.charCodeAt(0));
}

/** @param {Uint8Array} of */
function hex(of) {
  const rows = [];
  for (let at = 0; at < Math.min(of.length, HEX_BYTES_MAX); at += HEX_ROW) {
    const row = [...of.slice(at, at + HEX_ROW)];
    const codes = row.map((each) => each.toString(16).padStart(2, "0")).join(" ").padEnd(3 * HEX_ROW);
    const signs = row.map((each) => (each >= 32 && each < 127 ? String.fromCharCode(each) : "·")).join("");
    rows.push(`${at.toString(16).padStart(6, "0")}  ${codes} ${signs}`);
  }
  return rows.join("\n");
}

/** @param {{properties: Record<string, string>}} of */
export function Properties({ properties }) {
  const pairs = Object.entries(properties);
  if (!pairs.length) return null;
  return html`<details><summary class="small">${counted(pairs.length, "property or header", "properties and headers")}</summary>
    <dl class="facts">${pairs.map(([name, value]) => html`<dt class="mono small break">${name}</dt><dd class="mono small">${value}</dd>`)}</dl>
  </details>`;
}

/** @param {{message: any}} of */
export function Times({ message }) {
  const { published_ms: published, deliver_at_ms: due, expires_at_ms: end } = message;
  return html`<span class="quiet small">
    <${Time} ms=${published} />, ${age(published)} ago
    ${due > Date.now() && html`, due <${Time} ms=${due} />`}
    ${end > 0 && html`, expires <${Time} ms=${end} />`}
  </span>`;
}
