/** Dialogs: something is asked before something is done. */
import { html, useEffect, useRef, useState } from "../html.js";
import { attempt } from "../said.js";

/**
 * @param {object} of
 * @param {string} of.title
 * @param {() => void} of.onClose
 * @param {any} of.children
 */
export function Dialog({ title, onClose, children }) {
  const place = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    place.current?.showModal();
  }, []);
  return html`<dialog ref=${place} aria-labelledby="dialog-title" onClose=${onClose} onCancel=${onClose}>
    <h2 id="dialog-title">${title}</h2>
    ${children}
  </dialog>`;
}

/**
 * Asks whether something is really to be done; with `name`, that it be typed.
 * @param {object} of
 * @param {string} of.title
 * @param {any} of.text what will happen
 * @param {string} of.action what the button says
 * @param {string} of.done what is said afterwards
 * @param {() => Promise<unknown>} of.work
 * @param {() => void} of.onClose
 * @param {string} [of.name]
 */
export function Confirm({ title, text, action, done, work, onClose, name }) {
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    await attempt(work, done);
    onClose();
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form onSubmit=${submit}>
      <p>${text}</p>
      ${name !== undefined &&
      html`<label>Type its name to confirm<span class="hint mono break">${name}</span>
        <input value=${typed} onInput=${(/** @type {any} */ e) => setTyped(e.target.value)} autocomplete="off" autofocus />
      </label>`}
      <div class="row end">
        <button type="button" class="button" onClick=${onClose}>Cancel</button>
        <button class="button bad" disabled=${busy || (name !== undefined && typed !== name)}>${action}</button>
      </div>
    </form>
  <//>`;
}
