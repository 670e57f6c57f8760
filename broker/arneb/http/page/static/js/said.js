/** What was done, or could not be, said for a moment at the edge of the page. */
import { html, useEffect, useState } from "./html.js";

const SHOWN_MS = 6000;

/** @typedef {{id: number, text: string, kind: "good" | "bad"}} Word */

/** @type {Word[]} */
let words = [];
let last = 0;
/** @type {(words: Word[]) => void} */
let show = () => {};

/** @param {string} text @param {"good" | "bad"} [kind] */
export function say(text, kind = "good") {
  const word = { id: (last += 1), text, kind };
  words = [...words, word].slice(-4);
  show(words);
  setTimeout(() => {
    words = words.filter((each) => each !== word);
    show(words);
  }, kind === "bad" ? 2 * SHOWN_MS : SHOWN_MS);
}

/**
 * Do something and say what came of it. True if it was done.
 * @param {() => Promise<unknown>} work
 * @param {string} done
 */
export async function attempt(work, done) {
  try {
    await work();
    if (done) say(done);
    return true;
  } catch (error) {
    say(/** @type {Error} */ (error).message, "bad");
    return false;
  }
}

/** The place where it is said; screen readers hear of it. */
export function Said() {
  const [shown, setShown] = useState(words);
  useEffect(() => {
    show = setShown;
  }, []);
  return html`<div class="said" role="status" aria-live="polite">
    ${shown.map((each) => html`<p key=${each.id} class="notice ${each.kind}">${each.text}</p>`)}
  </div>`;
}
