/** Tables: rows of figures, sorted by whoever owns them, and the bar that pages through them. */
import { html } from "../html.js";
import { count } from "../format.js";

/**
 * @typedef {object} Column
 * @property {string} title
 * @property {(row: any) => any} show
 * @property {string} [sort] by what the server sorts
 * @property {boolean} [number]
 * @property {boolean} [head] it names the row
 * @property {string} [kind] a class of its cells
 */

/**
 * @param {object} of
 * @param {string} of.label what screen readers say
 * @param {Column[]} of.columns
 * @param {any[]} of.rows
 * @param {(row: any) => string} of.id
 * @param {string} [of.none] said when there are no rows
 * @param {{sort: string, reverse: boolean}} [of.order]
 * @param {(sort: string, reverse: boolean) => void} [of.onOrder]
 */
export function Table({ label, columns, rows, id, none = "Nothing here.", order, onOrder }) {
  if (!rows.length) return html`<p class="none">${none}</p>`;
  return html`<div class="scroll" role="region" aria-label=${`${label}: table`} tabindex="0">
    <table>
      <thead>
        <tr>${columns.map((column) => html`<${Head} column=${column} order=${order} onOrder=${onOrder} />`)}</tr>
      </thead>
      <tbody>
        ${rows.map((row) => html`<tr key=${id(row)}>${columns.map((column) => cell(column, row))}</tr>`)}
      </tbody>
    </table>
  </div>`;
}

/** @param {Column} column @param {any} row */
function cell(column, row) {
  const shown = column.show(row);
  const kind = `${column.number ? "number " : ""}${column.title ? "" : "acts "}${column.kind ?? ""}`;
  return column.head ? html`<th scope="row" class=${kind}>${shown}</th>` : html`<td class=${kind}>${shown}</td>`;
}

/** @param {any} of */
function Head({ column, order, onOrder }) {
  const kind = `${column.number ? "number" : ""} ${column.kind?.includes("aside") ? "aside" : ""}`;
  if (!column.title) return html`<td class=${kind}></td>`; // of buttons: a head needs a name
  if (!column.sort || !onOrder) return html`<th scope="col" class=${kind}>${column.title}</th>`;
  const chosen = order?.sort === column.sort;
  const sign = !chosen ? "" : order.reverse ? " ↓" : " ↑";
  const turn = () => onOrder(column.sort, chosen ? !order.reverse : Boolean(column.number));
  const sorted = chosen ? (order.reverse ? "descending" : "ascending") : undefined;
  return html`<th scope="col" class=${kind} aria-sort=${sorted}>
    <button type="button" onClick=${turn}>${column.title}${sign}</button>
  </th>`;
}

/**
 * Which page of a list is shown, and the way to others.
 * @param {{page: number, pages: number, total: number, of: string, onPage: (page: number) => void}} of
 */
export function Pager({ page, pages, total, of, onPage }) {
  return html`<nav class="row spread" aria-label="Pages of the list">
    <span class="quiet small">${count(total)} ${of}</span>
    ${pages > 1 &&
    html`<span class="row">
      <button class="button" disabled=${page <= 1} onClick=${() => onPage(page - 1)}>Previous</button>
      <span class="small">Page ${count(page)} of ${count(pages)}</span>
      <button class="button" disabled=${page >= pages} onClick=${() => onPage(page + 1)}>Next</button>
    </span>`}
  </nav>`;
}
