/** Definitions: everything but messages, as one file, down and up. */
import { get, post } from "../api.js";
import { html, useState } from "../html.js";
import { Head } from "../parts/head.js";
import { say } from "../said.js";

/** @param {{node: any}} of */
export function Definitions({ node }) {
  const [busy, setBusy] = useState(false);
  const download = async () => {
    setBusy(true);
    try {
      const text = JSON.stringify(await get("definitions"), null, 2);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      link.download = `${node?.cluster_name ?? "arneb"}-definitions.json`;
      link.click();
      URL.revokeObjectURL(link.href);
    } catch (error) {
      say(/** @type {Error} */ (error).message, "bad");
    }
    setBusy(false);
  };
  const upload = async (/** @type {any} */ event) => {
    event.preventDefault();
    const file = new FormData(event.target).get("file");
    if (!(file instanceof File) || !file.size) return;
    setBusy(true);
    try {
      await post("definitions", file);
      say(`Imported ${file.name}.`);
    } catch (error) {
      say(/** @type {Error} */ (error).message, "bad");
    }
    setBusy(false);
  };
  return html`
    <${Head} title="Definitions" text="Users, virtual hosts, permissions, policies, exchanges, queues and bindings, as one file that RabbitMQ reads too." />
    <div class="grid">
      <section class="card stack"><h2>Down</h2><p>The file has hashes of passwords: keep it to yourself.</p><div><button class="button first" disabled=${busy} onClick=${download}>Download</button></div></section>
      <section class="card stack"><h2>Up</h2><p>Creates what the file names. What exists already stays as it is; nothing is deleted.</p>
        <form class="stack" onSubmit=${upload}><label>File<input type="file" name="file" accept="application/json,.json" required /></label><div><button class="button first" disabled=${busy}>Import</button></div></form>
      </section>
    </div>`;
}
