/** Routes: what stands behind the hash. RabbitMQ's own hashes lead to the same things. */
import { useEffect, useState } from "./html.js";

/** @typedef {{page: string, names: string[], options: Record<string, string>}} Route */

/** What RabbitMQ has a page of its own for and stands on another one here. */
const ELSEWHERE = /** @type {Record<string, string>} */ ({
  "": "overview",
  login: "overview",
  nodes: "overview",
  "feature-flags": "overview",
  "deprecated-features": "overview",
  stream: "connections",
  traces: "trace",
  streams: "queues",
  limits: "vhosts",
  "cluster-name": "definitions",
  "import-succeeded": "definitions",
});

/** @returns {Route} */
export function currentRoute() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [first, ...names] = path.split("/").map(decoded);
  const page = ELSEWHERE[first] ?? first;
  const options = Object.fromEntries(new URLSearchParams(query));
  // A channel stands on the page of its connection, whose name is the channel's without its number.
  if (first === "channels" && names.length) return { page: "connections", names: [names[0].replace(/ \(\d+\)$/, "")], options };
  return { page, names: ELSEWHERE[first] ? [] : names, options };
}

/** The hash that leads somewhere. @param {string} page @param {...string} names */
export const to = (page, ...names) => `#/${[page, ...names.map(encodeURIComponent)].join("/")}`;

/** The same page with other options; empty ones go. @param {Record<string, unknown>} changes */
export function change(changes) {
  const path = location.hash.split("?")[0] || "#/";
  const options = new URLSearchParams({ ...currentRoute().options });
  for (const [name, value] of Object.entries(changes)) {
    if (value === "" || value === undefined || value === null) options.delete(name);
    else options.set(name, String(value));
  }
  const query = options.toString();
  history.replaceState(null, "", query ? `${path}?${query}` : path);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** The route, kept current. */
export function useRoute() {
  const [route, setRoute] = useState(currentRoute);
  useEffect(() => {
    const changed = () => setRoute(currentRoute());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

/** @param {string} name */
function decoded(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
