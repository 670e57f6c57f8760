/** Tabs: parts of one page, each with an address of its own. */
import { html } from "../html.js";

/** @param {{label: string, at: string, tabs: {name: string, title: string, hash: string}[]}} of */
export function Tabs({ label, at, tabs }) {
  return html`<nav class="tabs" aria-label=${label}>
    ${tabs.map((each) => html`<a href=${each.hash} aria-current=${each.name === at ? "page" : undefined}>${each.title}</a>`)}
  </nav>`;
}
