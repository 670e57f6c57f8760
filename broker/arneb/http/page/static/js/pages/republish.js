/** What is asked before messages are published again. */
import { count } from "../format.js";
import { html } from "../html.js";
import { Dialog } from "../parts/dialog.js";

/** @param {{count: number, onClose: () => void, onDone: (more: any) => void}} of */
export function RepublishDialog({ count: chosen, onClose, onDone }) {
  const submit = (/** @type {any} */ event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const to = form.get("where") === "other" ? { exchange: String(form.get("exchange")), routing_key: String(form.get("key")) } : {};
    onDone(to);
  };
  return html`<${Dialog} title="Publish again" onClose=${onClose}>
    <form onSubmit=${submit}>
      <p>${count(chosen)} ${chosen === 1 ? "message" : "messages"} as they are, with all headers, through an exchange. What lies here stays.</p>
      <label class="inline"><input type="radio" name="where" value="same" defaultChecked />As each was published at first</label>
      <label class="inline"><input type="radio" name="where" value="other" />Through this exchange, with this key:</label>
      <label>Exchange<span class="hint">empty: the default exchange</span><input name="exchange" autocomplete="off" /></label>
      <label>Routing key<input name="key" autocomplete="off" /></label>
      <div class="row end"><button type="button" class="button" onClick=${onClose}>Cancel</button><button class="button first">Publish again</button></div>
    </form>
  <//>`;
}
