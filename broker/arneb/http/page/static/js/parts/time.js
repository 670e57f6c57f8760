/** An instant: in the reader's zone, with UTC at hand: whoever presses it sees all times in UTC. */
import { html } from "../html.js";
import { time, utc } from "../format.js";
import { turnZone, useIsUtc } from "../zone.js";

/** @param {{ms: number}} of since the epoch */
export function Time({ ms }) {
  const title = useIsUtc() ? "Show times in your zone" : `${utc(ms)} – show times in UTC`;
  return html`<button type="button" class="time" title=${title} onClick=${turnZone}><time datetime=${utc(ms)}>${time(ms)}</time></button>`;
}
