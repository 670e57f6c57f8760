/** One exchange: where it leads, where a message would go, and publishing one. */
import { path, post, remove } from "../api.js";
import { rate } from "../format.js";
import { html, useState } from "../html.js";
import { Confirm } from "../parts/dialog.js";
import { Figures, Head, Waiting } from "../parts/head.js";
import { to } from "../route.js";
import { useWatch } from "../stream.js";
import { Bindings } from "./bindings.js";
import { Publish } from "./publish.js";

/** @param {{names: string[]}} of */
export function Exchange({ names }) {
  const [vhost, given = ""] = names;
  const name = given === "amq.default" ? "" : given;
  const { exchange } = useWatch({ exchange: `exchanges/${path(vhost, given)}` });
  const [asked, ask] = useState(false);
  const shown = exchange?.status === 200 ? exchange.body : undefined;
  const title = name || "Default exchange";
  if (!shown) return html`<${Head} title=${title} /><${Waiting} answer=${exchange} />`;
  const stats = shown.message_stats ?? {};
  return html`
    <${Head} title=${title} text=${`${shown.type} exchange in ${vhost}${shown.internal ? ", internal" : ""}`}>
      ${name && !name.startsWith("amq.") && html`<button class="button bad" onClick=${() => ask(true)}>Delete</button>`}
    <//>
    <${Figures} figures=${[{ title: "In", value: rate(stats.publish_in_details?.rate ?? 0) }, { title: "Out", value: rate(stats.publish_out_details?.rate ?? 0) }]} />
    <h2>Where would a message go?</h2>
    <${RouteTester} vhost=${vhost} exchange=${given} />
    <${Bindings} vhost=${vhost} exchange=${name} />
    ${!shown.internal && html`<h2>Publish</h2><${Publish} vhost=${vhost} exchange=${name} />`}
    ${asked && html`<${Confirm} title="Delete this exchange?" name=${name} action="Delete" done=${`Deleted ${name}.`} text="It goes with its bindings. Messages in queues stay." onClose=${() => ask(false)}
      work=${async () => {
        await remove(`exchanges/${path(vhost, name)}`);
        location.hash = to("exchanges");
      }} />`}`;
}

/** @param {{vhost: string, exchange: string}} of */
function RouteTester({ vhost, exchange }) {
  const [found, setFound] = useState(/** @type {any} */ (undefined));
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    try {
      const headers = JSON.parse(String(form.get("headers")) || "{}");
      setFound(await post(`page/route/${path(vhost, exchange)}`, { routing_key: String(form.get("key")), headers }));
    } catch (error) {
      setFound({ failed: error instanceof SyntaxError ? "Headers have to be a JSON object." : /** @type {Error} */ (error).message });
    }
  };
  return html`<form class="card fields" aria-label="Route tester" onSubmit=${submit}>
    <label>Routing key<input name="key" /></label>
    <label>Headers, as JSON<input name="headers" placeholder='{"region": "eu"}' /></label>
    <div><button class="button">Try it</button></div>
    <div class="wide" role="status">
      ${found?.failed && html`<p class="notice bad">${found.failed}</p>`}
      ${found?.queues && !found.queues_total && html`<p class="notice warn">To no queue: it would be returned, or dropped.</p>`}
      ${found?.queues_total > 0 && html`<p class="notice good"><span class="strong">To ${found.queues_total === 1 ? "1 queue" : `${found.queues_total} queues`}</span>${found.queues.map((/** @type {string} */ each) => html`<a href=${to("queues", vhost, each)}>${each}</a> `)}</p>`}
      ${found?.delayed_by?.length > 0 && html`<p class="quiet small">Delayed by ${found.delayed_by.join(", ")}</p>`}
    </div>
  </form>`;
}
