/** A spark line: a few numbers as one small curve. */
import { html } from "../html.js";
import { count } from "../format.js";

const WIDTH = 100;
const HEIGHT = 24;

/** @param {{values: number[], label: string}} of */
export function Spark({ values, label }) {
  if (!values || values.length < 2) return html`<span class="quiet">–</span>`;
  const most = Math.max(...values, 1);
  const step = WIDTH / (values.length - 1);
  const points = values.map((each, index) => `${(index * step).toFixed(1)},${(HEIGHT - 2 - (each / most) * (HEIGHT - 4)).toFixed(1)}`);
  const line = `M${points.join("L")}`;
  const said = `${label}: ${count(values[0])} to ${count(values[values.length - 1])} in two minutes`;
  return html`<svg class="spark" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label=${said}>
    <path class="under" d=${`${line}L${WIDTH},${HEIGHT}L0,${HEIGHT}Z`} /><path d=${line} />
  </svg>`;
}
