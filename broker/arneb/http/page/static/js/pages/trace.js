/** The trace: every message that comes in and goes out of a virtual host, as it happens. */
import { get, path, post, put, remove } from "../api.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { Head } from "../parts/head.js";
import { Table } from "../parts/table.js";
import { useVhosts } from "../parts/vhosts.js";
import { say } from "../said.js";

const KEPT = 200;
const TAKEN = 100;
const EVERY_MS = 1000;

/** The queue of a trace goes by itself when nobody looks any more, and holds this much at the most. */
const ARGUMENTS = { "x-expires": 30000, "x-max-length": 1000 };
const EXCHANGE = "amq.rabbitmq.trace";

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  { title: "What", head: true, show: (each) => html`<span class="tag ${each.routing_key.startsWith("publish") ? "accent" : "good"}">${each.routing_key.split(".")[0]}</span>` },
  { title: "Where", kind: "break", show: (each) => each.routing_key.slice(each.routing_key.indexOf(".") + 1) || "(default exchange)" },
  { title: "Routing key", kind: "mono break", show: (each) => (each.properties.headers?.routing_keys ?? []).join(", ") },
  { title: "User", kind: "aside", show: (each) => each.properties.headers?.user ?? "" },
  { title: "Body", kind: "mono break", show: (each) => (each.payload_encoding === "string" ? each.payload.slice(0, 200) : `(${each.payload_bytes} bytes)`) },
];

/** Switch the tracing of a virtual host. A PUT says all of one anew, so what is there is said again.
 * @param {string} vhost @param {boolean} tracing */
async function trace(vhost, tracing) {
  const { description, tags, default_queue_type, metadata } = await get(`vhosts/${path(vhost)}`);
  await put(`vhosts/${path(vhost)}`, { description, tags, default_queue_type, metadata, tracing });
}

export function Trace() {
  const vhosts = useVhosts();
  const [vhost, setVhost] = useState("/");
  const [filter, setFilter] = useState("");
  const [text, setText] = useState("");
  const [running, setRunning] = useState(false);
  const [seen, setSeen] = useState(/** @type {any[]} */ ([]));
  const numbered = useRef(0);
  useEffect(() => {
    if (!running) return undefined;
    const queue = `arneb.trace.${crypto.getRandomValues(new Uint32Array(2)).join("")}`;
    let timer = 0;
    let over = false;
    let ours = false; // else somebody had it on before, and wants it still
    const fail = (/** @type {any} */ error) => {
      say(error.message, "bad");
      setRunning(false);
    };
    const take = async () => {
      try {
        const got = await post(`queues/${path(vhost, queue)}/get`, { count: TAKEN, ackmode: "ack_requeue_false", encoding: "auto", truncate: 4096 });
        const fresh = got.map((/** @type {any} */ each) => ({ ...each, number: (numbered.current += 1) })).reverse();
        if (fresh.length) setSeen((before) => [...fresh, ...before].slice(0, KEPT));
        if (!over) timer = setTimeout(take, EVERY_MS);
      } catch (error) {
        if (!over) fail(error);
      }
    };
    const begin = async () => {
      try {
        ours = !(await get(`vhosts/${path(vhost)}`)).tracing;
        if (ours) await trace(vhost, true);
        if (over) return;
        await put(`queues/${path(vhost, queue)}`, { durable: false, arguments: ARGUMENTS });
        await post(`bindings/${path(vhost)}/e/${path(EXCHANGE)}/q/${path(queue)}`, { routing_key: filter || "#" });
        take();
      } catch (error) {
        fail(error);
      }
    };
    const begun = begin();
    return async () => {
      over = true;
      clearTimeout(timer);
      await begun; // or it would be switched on after it is off
      if (ours) trace(vhost, false).catch(() => {});
      remove(`queues/${path(vhost, queue)}`).catch(() => {});
    };
  }, [running]);
  const shown = seen.filter((each) => !text || JSON.stringify(each).toLowerCase().includes(text.toLowerCase()));
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!running) setSeen([]);
    setRunning(!running);
  };
  return html`
    <${Head} title="Trace" text="Every message of a virtual host as it comes in and goes out. It costs the broker work for as long as it runs." />
    <form class="card fields" aria-label="Trace" onSubmit=${submit}>
      <label>Virtual host<select disabled=${running} value=${vhost} onChange=${(/** @type {any} */ e) => setVhost(e.target.value)}>${vhosts.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>
      <label>Only<select disabled=${running} value=${filter} onChange=${(/** @type {any} */ e) => setFilter(e.target.value)}>
        <option value="">everything</option><option value="publish.#">what is published</option><option value="deliver.#">what is delivered</option>
      </select></label>
      <label>With this text<input value=${text} onInput=${(/** @type {any} */ e) => setText(e.target.value)} /></label>
      <div><button class="button ${running ? "" : "first"}">${running ? "Stop" : "Start"}</button></div>
    </form>
    <section class="card flush"><${Table} label="Traced messages" columns=${COLUMNS} rows=${shown} id=${(/** @type {any} */ each) => String(each.number)} none=${running ? "Nothing yet." : "Start it to see what passes."} /></section>`;
}
