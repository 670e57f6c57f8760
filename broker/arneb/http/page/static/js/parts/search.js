/** A search among names: what is typed stands in the address a moment later. */
import { html, useEffect, useState } from "../html.js";
import { change } from "../route.js";

const SEARCH_MS = 250;

/** @param {{name: string | undefined, children?: any}} of what stands in the address now */
export function Search({ name = "", children }) {
  const [typed, setTyped] = useState(name);
  useEffect(() => {
    if (typed === name) return undefined;
    const soon = setTimeout(() => change({ name: typed, page: "" }), SEARCH_MS);
    return () => clearTimeout(soon);
  }, [typed]);
  return html`<form class="row" role="search" onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
    <input type="search" aria-label="Search names" placeholder="Search names" value=${typed} onInput=${(/** @type {any} */ e) => setTyped(e.target.value)} />
    ${children}
  </form>`;
}
