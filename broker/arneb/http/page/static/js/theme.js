/** Light or dark: what the reader chose, or else what the system says. */

const KEPT = "arneb-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
/** @type {Set<() => void>} */
const listeners = new Set();

/** @returns {"light" | "dark"} */
export function theme() {
  const chosen = localStorage.getItem(KEPT);
  if (chosen === "light" || chosen === "dark") return chosen;
  return system.matches ? "dark" : "light";
}

/** Choose the other one. */
export function turn() {
  localStorage.setItem(KEPT, theme() === "dark" ? "light" : "dark");
  apply();
}

/** Show it, now and when the system changes its mind. */
export function apply() {
  document.documentElement.dataset.theme = theme();
  for (const each of listeners) each();
}

/** Have `back` called when colours change; returns what ends that. @param {() => void} back */
export function onTheme(back) {
  listeners.add(back);
  return () => listeners.delete(back);
}

/** A colour of the page by its name. @param {string} name */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

system.addEventListener("change", apply);
