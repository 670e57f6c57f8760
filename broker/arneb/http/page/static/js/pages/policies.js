/** Policies, those of users and those of the operator, with a preview of what one would touch before it does. */
import { path, post, put, remove } from "../api.js";
import { html, useEffect, useState } from "../html.js";
import { Confirm, Dialog } from "../parts/dialog.js";
import { Head, Waiting } from "../parts/head.js";
import { useDialog, useOnce } from "../parts/once.js";
import { Table } from "../parts/table.js";
import { Tabs } from "../parts/tabs.js";
import { useVhosts } from "../parts/vhosts.js";
import { to } from "../route.js";
import { attempt } from "../said.js";

const PREVIEW_MS = 300;
const EXAMPLE = '{"message-ttl": 60000}';

/** What the two kinds are called, and which comes first. */
const KINDS = /** @type {Record<string, {title: string, text: string, none: string}>} */ ({
  policies: { title: "Policies", text: "Settings for all queues and exchanges whose names fit a pattern.", none: "There is no policy." },
  "operator-policies": { title: "Operator policies", text: "Bounds that hold whatever a policy or a client asks for: of two limits the smaller one counts.", none: "There is no operator policy." },
});

/** Those of the operator apply to queues only. */
const APPLIES = /** @type {Record<string, string[]>} */ ({
  policies: ["all", "queues", "exchanges", "classic_queues", "quorum_queues", "streams"],
  "operator-policies": ["queues", "classic_queues", "quorum_queues", "streams"],
});

/** @param {{names: string[], kind?: string}} of */
export function Policies({ names, kind = "policies" }) {
  const [policies, load] = useOnce(kind);
  const words = KINDS[kind];
  const [asked, ask, again] = useDialog(load);
  if (policies?.status !== 200) return html`<${Head} title=${words.title} /><${Waiting} answer=${policies} />`;
  const rows = policies.body.filter((/** @type {any} */ each) => names.length < 2 || (each.vhost === names[0] && each.name === names[1]));
  const columns = [
    { title: "Name", head: true, kind: "break", show: (/** @type {any} */ each) => each.name },
    { title: "Virtual host", show: (/** @type {any} */ each) => each.vhost },
    { title: "Pattern", kind: "mono break", show: (/** @type {any} */ each) => each.pattern },
    { title: "Applies to", show: (/** @type {any} */ each) => each["apply-to"] },
    { title: "Priority", number: true, show: (/** @type {any} */ each) => each.priority },
    { title: "Definition", kind: "mono break", show: (/** @type {any} */ each) => Object.entries(each.definition).map(([key, value]) => html`<div>${key}: ${String(value)}</div>`) },
    { title: "", show: (/** @type {any} */ each) => html`<button class="button plain" aria-label=${`Change ${each.name}`} onClick=${() => ask({ kind: "set", policy: each })}>Change</button><button class="button plain" aria-label=${`Delete ${each.name}`} onClick=${() => ask({ kind: "delete", policy: each })}>Delete</button>` },
  ];
  return html`
    <${Head} title=${words.title} text=${words.text}><button class="button first" onClick=${() => ask({ kind: "set" })}>New policy</button><//>
    <${Tabs} label="Kinds of policies" at=${kind} tabs=${Object.entries(KINDS).map(([name, each]) => ({ name, title: each.title, hash: to(name) }))} />
    <section class="card flush"><${Table} label=${words.title} columns=${columns} rows=${rows} id=${(/** @type {any} */ each) => `${each.vhost}/${each.name}`} none=${words.none} /></section>
    ${asked?.kind === "set" && html`<${PolicyDialog} kind=${kind} policy=${asked.policy} onClose=${() => ask(null)} onDone=${again} />`}
    ${asked?.kind === "delete" && html`<${Confirm} title="Delete this policy?" name=${asked.policy.name} action="Delete" done="Deleted." text="What it set holds no longer, at once, for all that it applies to." work=${() => remove(`${kind}/${path(asked.policy.vhost, asked.policy.name)}`)} onClose=${again} />`}`;
}

/** @param {{kind: string, policy?: any, onClose: () => void, onDone: () => void}} of */
function PolicyDialog({ kind: which, policy, onClose, onDone }) {
  const vhosts = useVhosts();
  const [vhost, setVhost] = useState(policy?.vhost ?? "/");
  const [pattern, setPattern] = useState(policy?.pattern ?? "");
  const [kind, setKind] = useState(policy?.["apply-to"] ?? "queues");
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const name = policy?.name ?? String(form.get("name"));
    const work = async () => {
      const definition = JSON.parse(String(form.get("definition")));
      await put(`${which}/${path(vhost, name)}`, { pattern, "apply-to": kind, priority: Number(form.get("priority")), definition });
    };
    if (await attempt(work, `Saved ${name}.`)) onDone();
  };
  return html`<${Dialog} title=${policy ? `Change ${policy.name}` : "New policy"} onClose=${onClose}>
    <form onSubmit=${submit}>
      ${!policy && html`<label>Name<input name="name" required autofocus autocomplete="off" /></label>
      <label>Virtual host<select value=${vhost} onChange=${(/** @type {any} */ e) => setVhost(e.target.value)}>${vhosts.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>`}
      <label>Pattern<span class="hint">a regular expression that is searched in names</span><input class="mono" required value=${pattern} onInput=${(/** @type {any} */ e) => setPattern(e.target.value)} /></label>
      <label>Applies to<select value=${kind} onChange=${(/** @type {any} */ e) => setKind(e.target.value)}>${APPLIES[which].map((each) => html`<option value=${each}>${each}</option>`)}</select></label>
      <label>Priority<input name="priority" type="number" defaultValue=${policy?.priority ?? 0} /></label>
      <label>Definition, as JSON<textarea name="definition" required>${policy ? JSON.stringify(policy.definition, null, 2) : EXAMPLE}</textarea></label>
      <${Preview} vhost=${vhost} pattern=${pattern} kind=${kind} />
      <div class="row end"><button type="button" class="button" onClick=${onClose}>Cancel</button><button class="button first">Save</button></div>
    </form>
  <//>`;
}

/** @param {{vhost: string, pattern: string, kind: string}} of */
function Preview({ vhost, pattern, kind }) {
  const [found, setFound] = useState(/** @type {any} */ (null));
  useEffect(() => {
    setFound(null);
    if (!pattern) return undefined;
    const soon = setTimeout(async () => {
      try {
        setFound(await post(`page/policies/${path(vhost)}/preview`, { pattern, "apply-to": kind }));
      } catch (error) {
        setFound({ failed: /** @type {Error} */ (error).message });
      }
    }, PREVIEW_MS);
    return () => clearTimeout(soon);
  }, [vhost, pattern, kind]);
  const names = [...(found?.queues ?? []), ...(found?.exchanges ?? [])];
  const total = (found?.queues_total ?? 0) + (found?.exchanges_total ?? 0);
  return html`<div role="status" class="small">
    ${found?.failed && html`<p class="notice bad">${found.failed}</p>`}
    ${found && !found.failed && html`<p class="notice"><span class="strong">${total === 0 ? "Would touch nothing that is there now" : `Would touch ${total === 1 ? "1 name" : `${total} names`}`}</span><span class="break">${names.slice(0, 20).join(", ")}${total > 20 ? " …" : ""}</span></p>`}
  </div>`;
}
