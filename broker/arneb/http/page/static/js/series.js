/** Series: the last minutes of some figures, begun with what the broker has kept and continued with
 * what the stream brings. */
import { get } from "./api.js";
import { useEffect, useRef, useState } from "./html.js";

/** For how long back, and how far apart, the broker is asked. */
const AGE_S = 300;
const STEP_S = 5;
const POINTS_MAX = AGE_S;

/** The part of a query that asks for samples of these kinds. @param {...string} kinds */
export const ranges = (...kinds) => kinds.map((each) => `${each}_age=${AGE_S}&${each}_incr=${STEP_S}`).join("&");

/** @typedef {{times: number[], values: Record<string, (number | null)[]>}} Points */

/**
 * Figures over time.
 * @param {string} from a call whose answer has samples; empty for none
 * @param {(answer: any) => Points} read makes points of it
 * @param {Record<string, number> | undefined} now the newest figures
 * @param {any} tick changes when they are new
 */
export function useSeries(from, read, now, tick) {
  const [points, setPoints] = useState(/** @type {Points} */ ({ times: [], values: {} }));
  const begun = useRef(false);
  useEffect(() => {
    begun.current = !from;
    if (!from) return undefined;
    const gone = new AbortController();
    get(from, gone.signal).then(
      (answer) => {
        begun.current = true;
        setPoints(read(answer));
      },
      () => {
        begun.current = true;
      },
    );
    return () => gone.abort();
  }, [from]);
  useEffect(() => {
    if (!now || !begun.current) return;
    setPoints((before) => appended(before, Date.now() / 1000, now));
  }, [tick]);
  return points;
}

/** @param {Points} before @param {number} at @param {Record<string, number>} now @returns {Points} */
function appended(before, at, now) {
  const last = before.times[before.times.length - 1] ?? 0;
  if (at - last < 0.5) return before;
  const times = [...before.times, at].slice(-POINTS_MAX);
  const values = Object.fromEntries(
    Object.entries(now).map(([name, value]) => {
      const known = before.values[name] ?? before.times.map(() => null);
      return [name, [...known, value].slice(-POINTS_MAX)];
    }),
  );
  return { times, values };
}

/**
 * Samples of RabbitMQ's form as points: levels as they are, counters as rates.
 * @param {Record<string, {samples?: {sample: number, timestamp: number}[]} | undefined>} details by name
 * @param {string[]} counters the names of those that count
 * @returns {Points}
 */
export function pointsOf(details, counters) {
  const any = Object.values(details).find((each) => each?.samples?.length)?.samples ?? [];
  const times = any.slice(0, -1).map((each) => each.timestamp / 1000).reverse();
  const values = Object.fromEntries(
    Object.entries(details).map(([name, each]) => {
      const samples = each?.samples ?? [];
      const found = samples.slice(0, -1).map((sample, index) => {
        if (!counters.includes(name)) return sample.sample;
        const before = samples[index + 1];
        return (Math.max(0, sample.sample - before.sample) * 1000) / (sample.timestamp - before.timestamp);
      });
      return [name, found.length ? found.reverse() : times.map(() => 0)];
    }),
  );
  return { times, values };
}
