/** In the place of the login while no node of the cluster answers: what this node knows, until one does. */
import { capital } from "../format.js";
import { html } from "../html.js";
import { useMember } from "../member.js";
import { Cluster } from "./cluster.js";

const EVERY_MS = 1000;

/** @param {{reason: string}} of */
export function Leaderless({ reason }) {
  const member = useMember(true, EVERY_MS);
  return html`<main class=${member ? "main" : "alone"}>
    <div class="notice warn" role="alert"><span class="strong">Nobody answers for the cluster</span>${capital(reason)}. The page continues by itself as soon as a node leads.</div>
    ${member ? html`<${Cluster} member=${member} />` : html`<h1 class="unseen">Arneb</h1>`}
  </main>`;
}
