/** Publishing one message, to a queue or to an exchange. */
import { path, post } from "../api.js";
import { html } from "../html.js";
import { say } from "../said.js";

/** @param {{vhost: string, queue?: string, exchange?: string}} of */
export function Publish({ vhost, queue, exchange }) {
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    try {
      const headers = JSON.parse(String(form.get("headers")) || "{}");
      const { routed } = await post(`exchanges/${path(vhost, exchange || "amq.default")}/publish`, {
        routing_key: queue ?? String(form.get("key")),
        properties: { delivery_mode: form.get("durable") ? 2 : 1, headers, ...(form.get("type") ? { content_type: String(form.get("type")) } : {}) },
        payload: String(form.get("payload")),
        payload_encoding: "string",
      });
      say(routed ? "Published." : "Nobody takes it: no queue is bound for that.", routed ? "good" : "bad");
    } catch (error) {
      say(error instanceof SyntaxError ? "Headers have to be a JSON object." : /** @type {Error} */ (error).message, "bad");
    }
  };
  return html`<form class="card fields" aria-label="Publish a message" onSubmit=${submit}>
    ${queue === undefined && html`<label>Routing key<input name="key" /></label>`}
    <label>Content type<input name="type" placeholder="application/json" /></label>
    <label>Headers, as JSON<input name="headers" placeholder='{"region": "eu"}' /></label>
    <label class="inline"><input type="checkbox" name="durable" defaultChecked />Durable</label>
    <label class="wide">Body<textarea name="payload" required></textarea></label>
    <div><button class="button first">Publish</button></div>
  </form>`;
}
