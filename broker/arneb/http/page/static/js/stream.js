/** The stream: the one connection by which a page hears, each second, of what stands on it.
 * Whoever draws something names the calls that it shows; all of them share the stream, and while the
 * page is hidden there is none. */
import { get } from "./api.js";
import { useEffect, useState } from "./html.js";

/** How long to wait before asking again when the broker did not answer. */
const AGAIN_MS = 1500;

/** @typedef {{status: number, body: any}} Answer */
/** @typedef {{calls: Record<string, string>, heard: (name: string, answer: Answer) => void}} Listener */

/** @type {Set<Listener>} */
const listeners = new Set();
/** @type {EventSource | undefined} */
let source;
/** What the open stream carries. */
let carried = "";
let planned = 0;
/** @type {Set<(state: string) => void>} */
const watchers = new Set();
let state = "opening";
let why = "";

/** @param {string} now @param {string} [reason] */
function become(now, reason = "") {
  if (state === now && why === reason) return;
  state = now;
  why = reason;
  for (const each of watchers) each(now);
}

/** What was said when figures ceased to come. */
export const whyUnanswered = () => why;

/** Whether figures are coming: `live`, `opening`, `lost` while the broker is away, or `unanswered`
 * while it is there and says that nobody can answer. */
export function useStreamState() {
  const [shown, show] = useState(state);
  useEffect(() => {
    watchers.add(show);
    show(state);
    return () => watchers.delete(show);
  }, []);
  return shown;
}

/**
 * The newest answers to some calls, by their names.
 * @param {Record<string, string>} calls paths below `api/`, with their queries
 * @returns {Record<string, Answer | undefined>}
 */
export function useWatch(calls) {
  const [answers, setAnswers] = useState(/** @type {Record<string, any>} */ ({}));
  const key = JSON.stringify(calls);
  useEffect(() => {
    const of = Object.fromEntries(Object.entries(calls));
    const listener = {
      calls: of,
      /** @param {string} name @param {Answer} answer */
      heard: (name, answer) => setAnswers((before) => ({ ...before, [name]: { ...answer, call: of[name] } })),
    };
    listeners.add(listener);
    plan();
    return () => {
      listeners.delete(listener);
      plan();
    };
  }, [key]);
  return answers;
}

/** End the stream, as after a logout. */
export function endStream() {
  source?.close();
  source = undefined;
  carried = "";
}

/** Open the stream anew, once, when all who draw have said what they show. */
function plan(afterMs = 0) {
  clearTimeout(planned);
  planned = setTimeout(open, afterMs);
}

/** @returns {Record<string, string>} every call by its name */
function wanted() {
  return Object.assign({}, ...[...listeners].map((each) => each.calls));
}

function open() {
  const calls = wanted();
  const names = Object.keys(calls);
  const query = names.map((name) => `${name}=${encodeURIComponent(calls[name])}`).join("&");
  if (document.hidden || !names.length) {
    endStream();
    return;
  }
  if (query === carried && source && source.readyState !== EventSource.CLOSED) return;
  endStream();
  carried = query;
  const opened = new EventSource(`api/page/stream?${query}`);
  source = opened;
  for (const name of names) {
    opened.addEventListener(name, (event) => {
      if (opened !== source) return;
      become("live");
      const answer = JSON.parse(/** @type {MessageEvent} */ (event).data);
      for (const each of listeners) if (name in each.calls) each.heard(name, answer);
    });
  }
  opened.onerror = () => lost(opened);
}

/** The stream has ended: the broker is away, or the session over; whoever asks hears which.
 * @param {EventSource} opened */
async function lost(opened) {
  if (opened !== source) return;
  endStream();
  try {
    await get("whoami"); // says by itself when the session is over
    become("opening");
    plan(200);
  } catch (error) {
    const { status, message } = /** @type {any} */ (error);
    if (status === 0) become("lost");
    else if (status === 503) become("unanswered", message);
    plan(AGAIN_MS);
  }
}

document.addEventListener("visibilitychange", () => plan());
