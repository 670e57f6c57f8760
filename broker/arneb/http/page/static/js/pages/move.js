/** What is asked before messages are moved, copied or deleted. */
import { count } from "../format.js";
import { html, useState } from "../html.js";
import { Dialog } from "../parts/dialog.js";

const WORDS = /** @type {Record<string, string[]>} */ ({
  move: ["Move messages", "Move", "They leave this queue and stand in the other one, in one step: never in both, never in none."],
  copy: ["Copy messages", "Copy", "They stay here and stand in the other queue as well."],
  delete: ["Delete messages", "Delete", "They are gone for good."],
});

/** What is said of the audit log. @param {boolean} audited */
export const recorded = (audited) => (audited ? "It stands in the audit log." : "This broker keeps no audit log.");

/** @param {{action: string, from: string, count: number, audited: boolean, onClose: () => void, onDone: (more: any) => void}} of */
export function MoveDialog({ action, from, count: chosen, audited, onClose, onDone }) {
  const [title, button, text] = WORDS[action];
  const [to, setTo] = useState("");
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    onDone(action === "delete" ? {} : { to });
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form onSubmit=${submit}>
      <p>${count(chosen)} ${chosen === 1 ? "message" : "messages"} of ${from}. ${text} ${recorded(audited)}</p>
      ${action !== "delete" && html`<label>To the queue<input value=${to} onInput=${(/** @type {any} */ e) => setTo(e.target.value)} required autofocus autocomplete="off" /></label>`}
      <div class="row end"><button type="button" class="button" onClick=${onClose}>Cancel</button><button class="button ${action === "delete" ? "bad" : "first"}">${button}</button></div>
    </form>
  <//>`;
}
