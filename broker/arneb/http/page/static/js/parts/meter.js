/** A meter: how much of what may be used is used. */
import { html } from "../html.js";

/** @param {{label: string, is: number, of: number, warn?: number}} of */
export function Meter({ label, is, of, warn = 0.8 }) {
  const share = of > 0 ? Math.min(1, is / of) : 0;
  const kind = share >= 1 ? "bad" : share >= warn ? "warn" : "";
  return html`<span class="bar ${kind}" role="img" aria-label=${`${label}: ${Math.round(share * 100)} % used`}>
    <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect width=${share * 100} height="10" /></svg>
  </span>`;
}
