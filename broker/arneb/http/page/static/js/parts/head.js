/** The head of a page: its name, a sentence, and what can be done. */
import { html, useEffect } from "../html.js";

/** @param {{title: string, text?: any, children?: any}} of */
export function Head({ title, text, children }) {
  useEffect(() => {
    document.title = `${title} – Arneb`;
  }, [title]);
  return html`<div class="head">
    <div class="grow"><h1 tabindex="-1">${title}</h1>${text && html`<p>${text}</p>`}</div>
    ${children}
  </div>`;
}

/** What a page shows while it waits, or when it may not show more. @param {{answer: any}} of */
export function Waiting({ answer }) {
  if (!answer) return html`<p class="none" aria-busy="true">Loading …</p>`;
  const reason = answer.body?.reason ?? "It is not there.";
  const text = answer.status === 404 ? "It is not there (any more)." : String(reason);
  return html`<div class="notice warn"><span class="strong">Nothing to show</span>${text}</div>`;
}

/** Which shards of a cluster nobody leads at the moment, so that nothing of theirs stands here. @param {{of: any}} of */
export function MissingShards({ of }) {
  const missing = of?.missing ?? [];
  const name = missing.length > 1 ? "shards" : "shard";
  return missing.length > 0 && html`<p class="notice warn" role="status"><span class="strong">Not everything stands here</span>Nobody answers for ${name} ${missing.join(" and ")} at the moment.</p>`;
}

/** A few figures side by side. @param {{figures: {title: string, value: any, more?: any, dot?: string}[]}} of */
export function Figures({ figures }) {
  return html`<dl class="figures">
    ${figures.map(
      (each) => html`<div class="figure">
        <dt>${each.dot && html`<span class="dot ${each.dot}" aria-hidden="true"></span>`}${each.title}</dt>
        <dd>${each.value}</dd>
        ${each.more && html`<dd class="more">${each.more}</dd>`}
      </div>`,
    )}
  </dl>`;
}
