/** One connection: who it is, what goes through it, and closing it. */
import { call, get, path } from "../api.js";
import { bytes, count } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { Dialog } from "../parts/dialog.js";
import { Figures, Head, Waiting } from "../parts/head.js";
import { Table } from "../parts/table.js";
import { Time } from "../parts/time.js";
import { to } from "../route.js";
import { attempt } from "../said.js";
import { useWatch } from "../stream.js";
import { CHANNELS } from "./channels.js";

/** @param {{names: string[]}} of */
export function Connection({ names }) {
  const [name] = names;
  const { connection } = useWatch({ connection: `connections/${path(name)}` });
  const [channels, setChannels] = useState(/** @type {any[]} */ ([]));
  const [asked, ask] = useState(false);
  useEffect(() => {
    get(`connections/${path(name)}/channels`).then(setChannels, () => {});
  }, [connection]);
  const shown = connection?.status === 200 ? connection.body : undefined;
  if (!shown) return html`<${Head} title=${name} /><${Waiting} answer=${connection} />`;
  const client = shown.client_properties ?? {};
  return html`
    <${Head} title=${shown.user_provided_name || name} text=${`${shown.user} in ${shown.vhost}, ${shown.protocol}`}>
      <button class="button bad" onClick=${() => ask(true)}>Close</button>
    <//>
    <${Figures} figures=${[
      { title: "From client", value: `${bytes(shown.recv_oct_details?.rate ?? 0)}/s`, more: bytes(shown.recv_oct) },
      { title: "To client", value: `${bytes(shown.send_oct_details?.rate ?? 0)}/s`, more: bytes(shown.send_oct) },
      { title: "Channels", value: count(shown.channels) },
      { title: "State", value: shown.state },
    ]} />
    <section class="card"><h2>Client</h2><dl class="facts">
      <dt>Address</dt><dd>${shown.peer_host}:${shown.peer_port}</dd>
      <dt>Library</dt><dd>${[client.product, client.version].filter(Boolean).join(" ") || "–"}</dd>
      <dt>Connected</dt><dd>${shown.connected_at ? html`<${Time} ms=${shown.connected_at} />` : "–"}</dd>
      <dt>Heartbeat</dt><dd>${shown.timeout} s</dd>
      <dt>TLS</dt><dd>${shown.ssl ? "yes" : "no"}</dd>
    </dl></section>
    <section class="card flush"><div class="card-head"><h2>Channels</h2></div>
      <${Table} label="Channels" columns=${CHANNELS} rows=${channels} id=${(/** @type {any} */ row) => row.name} none="It has no channel." /></section>
    ${asked && html`<${CloseDialog} name=${name} onClose=${() => ask(false)} />`}`;
}

/** @param {{name: string, onClose: () => void}} of */
function CloseDialog({ name, onClose }) {
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (await attempt(() => call("DELETE", `connections/${path(name)}`), "Closed.")) location.hash = to("connections");
    onClose();
  };
  return html`<${Dialog} title="Close this connection?" onClose=${onClose}>
    <form onSubmit=${submit}>
      <p>Its channels and consumers go. What they had not acknowledged is delivered to others. Most clients connect again by themselves.</p>
      <div class="row end"><button type="button" class="button" onClick=${onClose}>Cancel</button><button class="button bad">Close the connection</button></div>
    </form>
  <//>`;
}
