/** Virtual hosts, and their limits. */
import { path, put, remove } from "../api.js";
import { count } from "../format.js";
import { html } from "../html.js";
import { Confirm, Dialog } from "../parts/dialog.js";
import { Head, Waiting } from "../parts/head.js";
import { useDialog, useOnce } from "../parts/once.js";
import { Table } from "../parts/table.js";
import { attempt } from "../said.js";
import { to } from "../route.js";

export function Vhosts() {
  const [vhosts, load] = useOnce("vhosts");
  const [limits, loadLimits] = useOnce("vhost-limits");
  const [asked, ask, again] = useDialog(load, loadLimits);
  if (vhosts?.status !== 200) return html`<${Head} title="Virtual hosts" /><${Waiting} answer=${vhosts} />`;
  const limit = (/** @type {string} */ vhost, /** @type {string} */ name) => limits?.body?.find?.((/** @type {any} */ each) => each.vhost === vhost)?.value?.[name];
  const columns = [
    { title: "Name", head: true, kind: "break", show: (/** @type {any} */ each) => html`<a href=${`${to("queues")}?vhost=${encodeURIComponent(each.name)}`}>${each.name}</a>` },
    { title: "Description", kind: "aside", show: (/** @type {any} */ each) => each.description ?? "" },
    { title: "Messages", number: true, show: (/** @type {any} */ each) => count(each.messages ?? 0) },
    { title: "Most connections", number: true, show: (/** @type {any} */ each) => limit(each.name, "max-connections") ?? "no limit" },
    { title: "Most queues", number: true, show: (/** @type {any} */ each) => limit(each.name, "max-queues") ?? "no limit" },
    { title: "", show: (/** @type {any} */ each) => html`<button class="button plain" aria-label=${`Limits of ${each.name}`} onClick=${() => ask({ kind: "limits", vhost: each.name })}>Limits</button><button class="button plain" aria-label=${`Delete ${each.name}`} onClick=${() => ask({ kind: "delete", vhost: each.name })}>Delete</button>` },
  ];
  return html`
    <${Head} title="Virtual hosts" text="Each has its own queues, exchanges and permissions."><button class="button first" onClick=${() => ask({ kind: "make" })}>New virtual host</button><//>
    <section class="card flush"><${Table} label="Virtual hosts" columns=${columns} rows=${vhosts.body} id=${(/** @type {any} */ each) => each.name} /></section>
    ${asked?.kind === "make" && html`<${Make} onClose=${() => ask(null)} onDone=${again} />`}
    ${asked?.kind === "limits" && html`<${Limits} vhost=${asked.vhost} onClose=${() => ask(null)} onDone=${again} />`}
    ${asked?.kind === "delete" && html`<${Confirm} title="Delete this virtual host?" name=${asked.vhost} action="Delete" done="Deleted." text="All of its queues, exchanges, messages and permissions go with it." work=${() => remove(`vhosts/${path(asked.vhost)}`)} onClose=${again} />`}`;
}

/** @param {{onClose: () => void, onDone: () => void}} of */
function Make({ onClose, onDone }) {
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    if (await attempt(() => put(`vhosts/${path(String(form.get("name")))}`, { description: form.get("description") }), "Made.")) onDone();
  };
  return html`<${Dialog} title="New virtual host" onClose=${onClose}><form onSubmit=${submit}>
    <label>Name<input name="name" required autofocus /></label><label>Description<input name="description" /></label>
    <div class="row end"><button type="button" class="button" onClick=${onClose}>Cancel</button><button class="button first">Make it</button></div>
  </form><//>`;
}

/** @param {{vhost: string, onClose: () => void, onDone: () => void}} of */
function Limits({ vhost, onClose, onDone }) {
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const work = async () => {
      for (const name of ["max-connections", "max-queues"]) {
        const value = String(form.get(name));
        if (value) await put(`vhost-limits/${path(vhost, name)}`, { value: Number(value) });
      }
    };
    if (await attempt(work, "Saved.")) onDone();
  };
  return html`<${Dialog} title=${`Limits of ${vhost}`} onClose=${onClose}><form onSubmit=${submit}>
    <label>Most connections<span class="hint">-1: no limit</span><input name="max-connections" type="number" min="-1" /></label>
    <label>Most queues<span class="hint">-1: no limit</span><input name="max-queues" type="number" min="-1" /></label>
    <div class="row end"><button type="button" class="button" onClick=${onClose}>Cancel</button><button class="button first">Save</button></div>
  </form><//>`;
}
