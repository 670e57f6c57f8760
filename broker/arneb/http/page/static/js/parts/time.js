/** An instant: in the reader's zone, with UTC at hand. */
import { html } from "../html.js";
import { time, utc } from "../format.js";

/** @param {{ms: number}} of since the epoch */
export const Time = ({ ms }) => html`<time datetime=${utc(ms)} title=${`${utc(ms)} (UTC)`}>${time(ms)}</time>`;
