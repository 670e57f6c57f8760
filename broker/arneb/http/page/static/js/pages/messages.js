/** Messages of a queue: looked at where they lie, looked for, and moved one by one. */
import { get, post, query } from "../api.js";
import { bytes, count } from "../format.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { say } from "../said.js";
import { useIsUtc } from "../zone.js";
import { Body, Properties, Times } from "./message.js";
import { MoveDialog } from "./move.js";
import { RepublishDialog } from "./republish.js";

const LIMIT = 20;

/**
 * @param {object} of
 * @param {string} of.name
 * @param {string} of.from the call that looks; what is done with messages stands below it
 * @param {boolean} of.isKept they may only be looked at
 * @param {boolean} of.audited what is done is recorded
 */
export function Messages({ name, from: place, isKept, audited }) {
  const [asked, setAsked] = useState(/** @type {Record<string, any>} */ ({ of: "waiting" }));
  const [found, setFound] = useState(/** @type {any[]} */ ([]));
  const [progress, setProgress] = useState({ bytes: 0, total: 1, next: /** @type {string | null} */ (null), busy: false, failed: "" });
  const [chosen, setChosen] = useState(/** @type {Set<string>} */ (new Set()));
  const [moving, setMoving] = useState("");
  const stop = useRef(new AbortController());

  const look = async (/** @type {string | null} */ from, /** @type {any[]} */ before) => {
    stop.current.abort();
    const mine = (stop.current = new AbortController());
    let next = from;
    let searched = 0;
    let all = before;
    const wanted = before.length + LIMIT;
    setProgress({ bytes: 0, total: 1, next, busy: true, failed: "" });
    try {
      do {
        const answer = await get(`${place}?${query({ ...asked, from: next, limit: wanted - all.length })}`, mine.signal);
        all = [...all, ...answer.messages];
        searched += answer.searched_bytes;
        next = answer.next;
        setFound(all);
        setProgress({ bytes: searched, total: answer.stored_bytes, next, busy: Boolean(next) && all.length < wanted, failed: "" });
      } while (next && all.length < wanted && !mine.signal.aborted);
    } catch (error) {
      const { name: kind, message } = /** @type {any} */ (error);
      setProgress((was) => ({ ...was, busy: false, next, failed: kind === "AbortError" ? "" : message }));
    }
  };
  const begin = () => {
    setFound([]);
    setChosen(new Set());
    look(null, []);
  };
  useEffect(() => {
    begin();
    return () => stop.current.abort();
  }, [JSON.stringify(asked), place]);

  const choose = (/** @type {string} */ position) => {
    const next = new Set(chosen);
    if (!next.delete(position)) next.add(position);
    setChosen(next);
  };
  const act = async (/** @type {string} */ action, /** @type {any} */ more = {}) => {
    try {
      const { done, left, unrouted, refused } = await post(`${place}/${action}`, { positions: [...chosen], ...more });
      const parts = [`${count(done)} ${SAID[action]}`];
      if (left) parts.push(`${count(left)} left as they were`);
      if (unrouted) parts.push(`${count(unrouted)} taken by no queue`);
      if (refused) parts.push(`${count(refused)} refused by a full queue`);
      say(`${parts.join(", ")}.`, unrouted || refused ? "bad" : "good");
      begin();
    } catch (error) {
      say(/** @type {Error} */ (error).message, "bad");
    }
    setMoving("");
  };
  const died = found.some((each) => chosen.has(each.position) && "x-first-death-queue" in plainNames(each.properties));
  return html`
    <${Search} onSearch=${setAsked} busy=${progress.busy} onCancel=${() => stop.current.abort()} />
    <p class="quiet small" role="status">${progress.busy ? `Looking … ${bytes(progress.bytes)} of ${bytes(progress.total)}` : `${count(found.length)} found, ${bytes(progress.bytes)} looked at. Nothing is taken from the queue.`}</p>
    ${progress.failed && html`<p class="notice bad">${progress.failed}</p>`}
    ${!isKept && html`<div class="row" role="group" aria-label="What to do with chosen messages">
      <button class="button" disabled=${!chosen.size} onClick=${() => setMoving("move")}>Move</button>
      <button class="button" disabled=${!chosen.size} onClick=${() => setMoving("copy")}>Copy</button>
      <button class="button" disabled=${!chosen.size} onClick=${() => act("move", { to: name })}>Requeue at the end</button>
      <button class="button" disabled=${!chosen.size} onClick=${() => setMoving("republish")}>Publish again</button>
      <button class="button" disabled=${!died} onClick=${() => act("send-back")}>Send back where it died</button>
      <button class="button bad" disabled=${!chosen.size} onClick=${() => setMoving("delete")}>Delete</button>
      <span class="quiet small">${chosen.size ? `${count(chosen.size)} chosen` : "Choose messages first"}</span>
    </div>`}
    <section class="card flush" aria-label="Messages">
      ${!found.length && !progress.busy && html`<p class="none">No message fits${asked.of === "waiting" ? " among those that wait" : ""}.</p>`}
      ${found.map((each) => html`<${Message} key=${`${each.position}/${each.batch_index}`} message=${each} isKept=${isKept} chosen=${chosen.has(each.position)} onChoose=${() => choose(each.position)} />`)}
    </section>
    ${progress.next && !progress.busy && html`<button class="button" onClick=${() => look(progress.next, found)}>Look for more</button>`}
    ${moving === "republish" && html`<${RepublishDialog} count=${chosen.size} onClose=${() => setMoving("")} onDone=${(/** @type {any} */ more) => act(moving, more)} />`}
    ${moving && moving !== "republish" && html`<${MoveDialog} action=${moving} from=${name} count=${chosen.size} audited=${audited} onClose=${() => setMoving("")} onDone=${(/** @type {any} */ more) => act(moving, more)} />`}`;
}

const SAID = /** @type {Record<string, string>} */ ({ move: "moved", copy: "copied", delete: "deleted", republish: "published again", "send-back": "sent back" });

/** Properties by their names without the prefix of typed headers. @param {Record<string, string>} properties */
export const plainNames = (properties) => Object.fromEntries(Object.entries(properties).map(([name, value]) => [name.replace(/^.*?(x-(first|last)-death|x-death)/, "$1"), value]));

/** @param {{onSearch: (asked: any) => void, busy: boolean, onCancel: () => void}} of */
function Search({ onSearch, busy, onCancel }) {
  const isUtc = useIsUtc();
  const zone = isUtc ? " (UTC)" : "";
  const submit = (/** @type {any} */ event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const at = (/** @type {string} */ name) => {
      const text = String(form.get(name) ?? "");
      return text ? new Date(isUtc ? `${text}Z` : text).getTime() : undefined;
    };
    onSearch({ of: form.get("of"), key: form.get("key"), header: form.get("header"), text: form.get("text"), since: at("since"), until: at("until"), again: Date.now() });
  };
  return html`<form class="card fields" role="search" onSubmit=${submit}>
    <label>Look in<select name="of"><option value="waiting">What waits</option><option value="all">All that the log keeps</option></select></label>
    <label>Key<input name="key" /></label>
    <label>Header<input name="header" placeholder="name or name=value" /></label>
    <label>Text in the body<input name="text" /></label>
    <label>Published since${zone}<input name="since" type="datetime-local" step="1" /></label>
    <label>Until${zone}<input name="until" type="datetime-local" step="1" /></label>
    <div class="row"><button class="button first">Search</button>${busy && html`<button type="button" class="button" onClick=${onCancel}>Cancel</button>`}</div>
  </form>`;
}

/** @param {{message: any, isKept: boolean, chosen: boolean, onChoose: () => void}} of */
function Message({ message, isKept, chosen, onChoose }) {
  const dead = plainNames(message.properties)["x-first-death-reason"];
  return html`<article class="message" aria-label=${`Message ${message.position}`}>
    <div class="row">
      <label class="inline">${!isKept && html`<input type="checkbox" checked=${chosen} disabled=${!message.waits} onChange=${onChoose} />`}<span class="mono">${message.position}${message.batch_index >= 0 ? `/${message.batch_index}` : ""}</span></label>
      ${message.batch_messages > 1 && html`<span class="tag">${count(message.batch_index + 1)} of ${count(message.batch_messages)} in a batch</span>`}
      ${message.key !== null && html`<span class="tag">${message.key}</span>`}
      <span class="tag">${message.origin}</span>
      ${!message.waits && html`<span class="tag good">acknowledged</span>`}
      ${dead && html`<span class="tag warn">died: ${dead} in ${plainNames(message.properties)["x-first-death-queue"]}</span>`}
      <span class="quiet small">${bytes(message.bytes)}</span>
      <${Times} message=${message} />
    </div>
    <${Body} message=${message} />
    <${Properties} properties=${message.properties} />
  </article>`;
}
