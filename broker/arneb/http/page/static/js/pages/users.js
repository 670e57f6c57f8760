/** Users: who may come in, by which tags, and what each may do where. */
import { path, put, remove } from "../api.js";
import { html } from "../html.js";
import { Confirm, Dialog } from "../parts/dialog.js";
import { Head, Waiting } from "../parts/head.js";
import { useDialog, useOnce } from "../parts/once.js";
import { Table } from "../parts/table.js";
import { useVhosts } from "../parts/vhosts.js";
import { attempt } from "../said.js";
import { TopicPermissions, UserLimits } from "./rights.js";

/** @param {{names: string[]}} of */
export function Users({ names }) {
  const [users, load] = useOnce("users");
  const [permissions, loadPermissions] = useOnce("permissions");
  const [asked, ask, again] = useDialog(load, loadPermissions);
  if (users?.status !== 200) return html`<${Head} title="Users" /><${Waiting} answer=${users} />`;
  const rows = users.body.filter((/** @type {any} */ each) => !names.length || each.name === names[0]);
  const rights = (permissions?.body ?? []).filter?.((/** @type {any} */ each) => !names.length || each.user === names[0]) ?? [];
  const columns = [
    { title: "Name", head: true, kind: "break", show: (/** @type {any} */ each) => each.name },
    { title: "Tags", show: (/** @type {any} */ each) => each.tags.map((/** @type {string} */ tag) => html`<span class="tag">${tag}</span> `) },
    { title: "Password", show: (/** @type {any} */ each) => (each.password_hash ? "set" : "none: cannot log in by one") },
    { title: "", show: (/** @type {any} */ each) => html`<button class="button plain" aria-label=${`Change ${each.name}`} onClick=${() => ask({ kind: "user", user: each })}>Change</button><button class="button plain" aria-label=${`Delete ${each.name}`} onClick=${() => ask({ kind: "delete", user: each })}>Delete</button>` },
  ];
  const rightColumns = [
    { title: "User", head: true, kind: "break", show: (/** @type {any} */ each) => each.user },
    { title: "Virtual host", show: (/** @type {any} */ each) => each.vhost },
    ...["configure", "write", "read"].map((right) => ({ title: right, kind: "mono break", show: (/** @type {any} */ each) => each[right] || "(nothing)" })),
    { title: "", show: (/** @type {any} */ each) => html`<button class="button plain" aria-label=${`Take away the permission of ${each.user} in ${each.vhost}`} onClick=${async () => {
      await attempt(() => remove(`permissions/${path(each.vhost, each.user)}`), "Taken away.");
      again();
    }}>Take away</button>` },
  ];
  return html`
    <${Head} title="Users" text="Who may come in, and what each may do.">
      <button class="button" onClick=${() => ask({ kind: "right" })}>New permission</button>
      <button class="button first" onClick=${() => ask({ kind: "user" })}>New user</button>
    <//>
    <section class="card flush"><${Table} label="Users" columns=${columns} rows=${rows} id=${(/** @type {any} */ each) => each.name} /></section>
    <section class="card flush"><div class="card-head"><h2>Permissions</h2><p class="quiet small">Regular expressions over the names of queues and exchanges.</p></div>
      <${Table} label="Permissions" columns=${rightColumns} rows=${rights} id=${(/** @type {any} */ each) => `${each.user}/${each.vhost}`} none="Nobody has a permission." /></section>
    <${TopicPermissions} users=${users.body} name=${names[0]} />
    <${UserLimits} users=${users.body} name=${names[0]} />
    ${asked?.kind === "user" && html`<${UserDialog} user=${asked.user} onClose=${() => ask(null)} onDone=${again} />`}
    ${asked?.kind === "right" && html`<${RightDialog} users=${users.body} onClose=${() => ask(null)} onDone=${again} />`}
    ${asked?.kind === "delete" && html`<${Confirm} title="Delete this user?" name=${asked.user.name} action="Delete" done="Deleted." text="Open connections of the user are closed." work=${() => remove(`users/${path(asked.user.name)}`)} onClose=${again} />`}`;
}

/** @param {{user?: any, onClose: () => void, onDone: () => void}} of */
function UserDialog({ user, onClose, onDone }) {
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const password = String(form.get("password"));
    const secret = password ? { password } : { password_hash: user?.password_hash ?? "", hashing_algorithm: user?.hashing_algorithm };
    const name = user?.name ?? String(form.get("name"));
    if (await attempt(() => put(`users/${path(name)}`, { ...secret, tags: String(form.get("tags")) }), `Saved ${name}.`)) onDone();
  };
  return html`<${Dialog} title=${user ? `Change ${user.name}` : "New user"} onClose=${onClose}>
    <form onSubmit=${submit}>
      ${!user && html`<label>Name<input name="name" required autofocus autocomplete="off" /></label>`}
      <label>Password<span class="hint">${user ? "Empty: it stays as it is" : ""}</span><input name="password" type="password" required=${!user} autocomplete="new-password" /></label>
      <label>Tags<span class="hint">administrator, monitoring, policymaker, management; none: applications only</span><input name="tags" defaultValue=${user?.tags.join(", ") ?? ""} /></label>
      <div class="row end"><button type="button" class="button" onClick=${onClose}>Cancel</button><button class="button first">Save</button></div>
    </form>
  <//>`;
}

/** @param {{users: any[], onClose: () => void, onDone: () => void}} of */
function RightDialog({ users, onClose, onDone }) {
  const vhosts = useVhosts();
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const body = { configure: form.get("configure"), write: form.get("write"), read: form.get("read") };
    if (await attempt(() => put(`permissions/${path(String(form.get("vhost")), String(form.get("user")))}`, body), "Saved.")) onDone();
  };
  return html`<${Dialog} title="New permission" onClose=${onClose}>
    <form onSubmit=${submit}>
      <label>User<select name="user">${users.map((each) => html`<option value=${each.name}>${each.name}</option>`)}</select></label>
      <label>Virtual host<select name="vhost">${vhosts.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>
      ${["configure", "write", "read"].map((each) => html`<label>${each}<input name=${each} defaultValue=".*" class="mono" /></label>`)}
      <div class="row end"><button type="button" class="button" onClick=${onClose}>Cancel</button><button class="button first">Save</button></div>
    </form>
  <//>`;
}
