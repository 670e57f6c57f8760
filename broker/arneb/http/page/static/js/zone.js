/** The zone in which times are shown: the reader's own, or UTC if they have asked for it. */
import { useEffect, useState } from "./html.js";

const KEPT = "arneb-zone";
const UTC = "utc";
/** @type {Set<() => void>} */
const listeners = new Set();

export const isUtc = () => localStorage.getItem(KEPT) === UTC;

/** Show times in the other zone from now on. */
export function turnZone() {
  if (isUtc()) localStorage.removeItem(KEPT);
  else localStorage.setItem(KEPT, UTC);
  for (const each of listeners) each();
}

/** What is given to a formatter of times. */
export const zoned = () => (isUtc() ? { timeZone: "UTC" } : {});

/** Have `back` called when the zone changes; returns what ends that. @param {() => void} back */
export function onZone(back) {
  listeners.add(back);
  return () => listeners.delete(back);
}

/** Whether it is UTC, kept current. */
export function useIsUtc() {
  const [shown, show] = useState(isUtc());
  useEffect(() => {
    const changed = () => show(isUtc());
    const leave = onZone(changed);
    return () => void leave();
  }, []);
  return shown;
}
