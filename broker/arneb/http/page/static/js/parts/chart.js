/** A chart of the last minutes: lines over time, drawn by uPlot, with a table for who cannot see. */
import uPlot from "../../vendor/uplot.js";
import { html, useEffect, useRef } from "../html.js";
import { short } from "../format.js";
import { colour, onTheme } from "../theme.js";
import { onZone, zoned } from "../zone.js";

const HEIGHT = 190;

/** A chart shows a minute at least, also when it has just begun. */
const SPAN_S = 60;

/** Distances of the lines behind figures that are whole. */
const STEPS = [1, 2, 5].flatMap((each) => Array.from({ length: 13 }, (_, power) => each * 10 ** power)).sort((a, b) => a - b);

/** As high as a chart is at least. */
const MOST_MIN = 4;

/** @typedef {{label: string, colour: string, values: (number | null)[]}} Line */

/**
 * @param {object} of
 * @param {string} of.label
 * @param {number[]} of.times seconds since the epoch
 * @param {Line[]} of.lines
 * @param {(value: number) => string} [of.show]
 */
export function Chart({ label, times, lines, show = short }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const chart = useRef(/** @type {any} */ (null));
  const data = [times, ...lines.map((each) => each.values)];
  const newestData = useRef(data);
  newestData.current = data;
  useEffect(() => {
    const draw = () => {
      chart.current?.destroy();
      chart.current = new uPlot(options(lines, show, place.current?.clientWidth || 480), newestData.current, place.current);
    };
    draw();
    const sized = new ResizeObserver(() => {
      const width = place.current?.clientWidth;
      if (width && chart.current && width !== chart.current.width) chart.current.setSize({ width, height: HEIGHT });
    });
    sized.observe(place.current);
    const ends = [onTheme(draw), onZone(draw)];
    return () => {
      for (const end of ends) end();
      sized.disconnect();
      chart.current?.destroy();
      chart.current = null;
    };
  }, [lines.map((each) => each.label).join()]);
  useEffect(() => chart.current?.setData(data), [times, ...lines.map((each) => each.values)]);
  const newest = lines.map((each) => `${each.label} ${show(each.values[each.values.length - 1] ?? 0)}`).join(", ");
  return html`<div class="chart" role="img" aria-label=${`${label}: now ${newest}`} ref=${place}></div>`;
}

/** @param {Line[]} lines @param {(value: number) => string} show @param {number} width */
function options(lines, show, width) {
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  return {
    width,
    height: HEIGHT,
    cursor: { y: false, points: { size: 6 } },
    legend: { show: lines.length > 1 },
    scales: { x: { range: span }, y: { range: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ most) => [0, Math.max(MOST_MIN, (most ?? 0) * 1.1)] } },
    axes: [
      { ...axis, space: 70, values: (/** @type {any} */ _, /** @type {number[]} */ at, /** @type {any} */ __, /** @type {any} */ ___, /** @type {number} */ step) => at.map((each) => clock(each, step < 60)) },
      { ...axis, size: 58, incrs: STEPS, values: (/** @type {any} */ _, /** @type {number[]} */ at) => at.map(show) },
    ],
    series: [
      { label: "Time", value: (/** @type {any} */ _, /** @type {number | null} */ at) => (at ? clock(at, true) : "now") },
      ...lines.map((each) => ({
        label: each.label,
        stroke: colour(each.colour),
        width: 1.75,
        points: { show: false },
        // Without a pointer over the chart, the newest one.
        value: (/** @type {any} */ of, /** @type {number | null} */ value, /** @type {number} */ line, /** @type {number | null} */ index) => {
          const shown = index === null || index === undefined ? of.data[line][of.data[line].length - 1] : value;
          return shown === null || shown === undefined ? "–" : show(shown);
        },
      })),
    ],
  };
}

/** From when to when a chart goes. @param {any} _ @param {number | null} least @param {number | null} most */
function span(_, least, most) {
  const end = most ?? Date.now() / 1000;
  return [Math.min(least ?? end, end - SPAN_S), end];
}

/** @param {number} seconds @param {boolean} isFine */
function clock(seconds, isFine) {
  return new Date(seconds * 1000).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", ...(isFine ? { second: "2-digit" } : {}), ...zoned() });
}
