/** What else bounds users: permissions of topic exchanges, and limits of connections and channels. */
import { path, put, remove } from "../api.js";
import { count } from "../format.js";
import { html } from "../html.js";
import { Dialog } from "../parts/dialog.js";
import { useDialog, useOnce } from "../parts/once.js";
import { Table } from "../parts/table.js";
import { useVhosts } from "../parts/vhosts.js";
import { attempt } from "../said.js";

const LIMITS = [
  ["max-connections", "Most connections"],
  ["max-channels", "Most channels"],
];

/** @param {{users: any[], name?: string}} of all users, or what one of them may */
export function TopicPermissions({ users, name }) {
  const [found, load] = useOnce("topic-permissions");
  const [asked, ask, again] = useDialog(load);
  const rows = (found?.status === 200 ? found.body : []).filter((/** @type {any} */ each) => !name || each.user === name);
  const columns = [
    { title: "User", head: true, kind: "break", show: (/** @type {any} */ each) => each.user },
    { title: "Virtual host", show: (/** @type {any} */ each) => each.vhost },
    { title: "Exchange", kind: "break", show: (/** @type {any} */ each) => each.exchange || "(default exchange)" },
    { title: "write", kind: "mono break", show: (/** @type {any} */ each) => each.write || "(nothing)" },
    { title: "read", kind: "mono break", show: (/** @type {any} */ each) => each.read || "(nothing)" },
    { title: "", show: (/** @type {any} */ each) => html`<button class="button plain" aria-label=${`Take away what ${each.user} may on ${each.exchange} in ${each.vhost}`} onClick=${async () => {
      await attempt(() => remove(`topic-permissions/${path(each.vhost, each.user)}/${path(each.exchange || "amq.default")}`), "Taken away.");
      load();
    }}>Take away</button>` },
  ];
  return html`<section class="card flush" aria-label="Topic permissions">
    <div class="row spread card-head"><div><h2>Topic permissions</h2><p class="quiet small">Regular expressions over the routing keys of topic exchanges. Without any, every key may be used.</p></div>
      <button class="button" onClick=${() => ask(true)}>New topic permission</button></div>
    <${Table} label="Topic permissions" columns=${columns} rows=${rows} id=${(/** @type {any} */ each) => `${each.user}/${each.vhost}/${each.exchange}`} none="Nobody has one." />
    ${asked && html`<${TopicDialog} users=${users} onClose=${() => ask(null)} onDone=${again} />`}
  </section>`;
}

/** @param {{users: any[], onClose: () => void, onDone: () => void}} of */
function TopicDialog({ users, onClose, onDone }) {
  const vhosts = useVhosts();
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const body = { exchange: form.get("exchange"), write: form.get("write"), read: form.get("read") };
    if (await attempt(() => put(`topic-permissions/${path(String(form.get("vhost")), String(form.get("user")))}`, body), "Saved.")) onDone();
  };
  return html`<${Dialog} title="New topic permission" onClose=${onClose}>
    <form onSubmit=${submit}>
      <label>User<select name="user">${users.map((each) => html`<option value=${each.name}>${each.name}</option>`)}</select></label>
      <label>Virtual host<select name="vhost">${vhosts.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>
      <label>Topic exchange<input name="exchange" required defaultValue="amq.topic" /></label>
      ${["write", "read"].map((each) => html`<label>${each}<input name=${each} defaultValue=".*" class="mono" /></label>`)}
      <div class="row end"><button type="button" class="button" onClick=${onClose}>Cancel</button><button class="button first">Save</button></div>
    </form>
  <//>`;
}

/** @param {{users: any[], name?: string}} of */
export function UserLimits({ users, name }) {
  const [found, load] = useOnce("user-limits");
  const [asked, ask, again] = useDialog(load);
  const limits = Object.fromEntries((found?.status === 200 ? found.body : []).map((/** @type {any} */ each) => [each.user, each.value]));
  const rows = users.filter((each) => !name || each.name === name);
  const columns = [
    { title: "User", head: true, kind: "break", show: (/** @type {any} */ each) => each.name },
    ...LIMITS.map(([limit, title]) => ({ title, number: true, show: (/** @type {any} */ each) => (limits[each.name]?.[limit] >= 0 ? count(limits[each.name][limit]) : "no limit") })),
    { title: "", show: (/** @type {any} */ each) => html`<button class="button plain" aria-label=${`Limits of ${each.name}`} onClick=${() => ask(each.name)}>Limits</button>` },
  ];
  return html`<section class="card flush" aria-label="Limits of users">
    <div class="card-head"><h2>Limits</h2><p class="quiet small">How many connections and channels a user may have at a time.</p></div>
    <${Table} label="Limits of users" columns=${columns} rows=${rows} id=${(/** @type {any} */ each) => each.name} />
    ${asked !== null && html`<${LimitsDialog} user=${asked} now=${limits[asked] ?? {}} onClose=${() => ask(null)} onDone=${again} />`}
  </section>`;
}

/** @param {{user: string, now: Record<string, number>, onClose: () => void, onDone: () => void}} of */
function LimitsDialog({ user, now, onClose, onDone }) {
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const work = async () => {
      for (const [limit] of LIMITS) {
        const value = String(form.get(limit));
        if (value) await put(`user-limits/${path(user, limit)}`, { value: Number(value) });
        else if (limit in now) await remove(`user-limits/${path(user, limit)}`);
      }
    };
    if (await attempt(work, "Saved.")) onDone();
  };
  return html`<${Dialog} title=${`Limits of ${user}`} onClose=${onClose}>
    <form onSubmit=${submit}>
      ${LIMITS.map(([limit, title]) => html`<label>${title}<span class="hint">empty: no limit</span><input name=${limit} type="number" min="0" defaultValue=${now[limit] >= 0 ? now[limit] : ""} /></label>`)}
      <div class="row end"><button type="button" class="button" onClick=${onClose}>Cancel</button><button class="button first">Save</button></div>
    </form>
  <//>`;
}
