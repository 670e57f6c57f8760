/** Figures and times as people read them. */
import { isUtc, zoned } from "./zone.js";

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 1 });

/** @param {number | undefined | null} value */
export function count(value) {
  return value === undefined || value === null ? "–" : whole.format(value);
}

/** As a sentence begins. @param {string} text */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** So many of something. @param {number} value @param {string} one @param {string} [many] */
export const counted = (value, one, many = `${one}s`) => (value === 1 ? `1 ${one}` : `${count(value)} ${many}`);

/** In few characters, for axes and narrow columns. @param {number} value */
export function short(value) {
  for (const [unit, name] of /** @type {[number, string][]} */ ([[1e9, "G"], [1e6, "M"], [1e3, "k"]])) {
    if (Math.abs(value) >= unit) return `${fine.format(value / unit)}${name}`;
  }
  return fine.format(value);
}

/** Messages a second. @param {number | undefined | null} value */
export function rate(value) {
  if (value === undefined || value === null) return "–";
  return `${value >= 100 || value === 0 ? whole.format(value) : fine.format(value)}/s`;
}

/** @param {number | undefined | null} value */
export function bytes(value) {
  if (value === undefined || value === null) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value >= 100 || unit === 0 ? whole.format(value) : fine.format(value)} ${units[unit]}`;
}

/** @param {number} seconds */
export function lasting(seconds) {
  if (seconds < 0.001) return `${whole.format(seconds * 1e6)} µs`;
  if (seconds < 1) return `${fine.format(seconds * 1000)} ms`;
  if (seconds < 90) return `${whole.format(seconds)} s`;
  if (seconds < 90 * 60) return `${whole.format(seconds / 60)} min`;
  if (seconds < 36 * 3600) return `${fine.format(seconds / 3600)} h`;
  return `${whole.format(seconds / 86400)} days`;
}

/** How long ago that was. @param {number | undefined | null} ms since the epoch */
export function age(ms) {
  return ms ? lasting(Math.max(0, (Date.now() - ms) / 1000)) : "–";
}

/** In the reader's zone, or in UTC if they asked for it. @param {number} ms since the epoch */
export function time(ms) {
  const text = new Date(ms).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium", ...zoned() });
  return isUtc() ? `${text} UTC` : text;
}

/** In UTC, to the millisecond. @param {number} ms since the epoch */
export const utc = (ms) => new Date(ms).toISOString();
