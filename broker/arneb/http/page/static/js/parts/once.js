/** What is asked for once and again after a change, and the dialogs that change it. */
import { get } from "../api.js";
import { useEffect, useState } from "../html.js";

/** An answer in the form of the stream's, with the way to ask again. @param {string} from @returns {[any, () => void]} */
export function useOnce(from) {
  const [answer, setAnswer] = useState(/** @type {any} */ (undefined));
  const load = () => {
    get(from).then(
      (body) => setAnswer({ status: 200, body }),
      (error) => setAnswer({ status: error.status, body: { reason: error.message } }),
    );
  };
  useEffect(load, [from]);
  return [answer, load];
}

/** The dialog that is open, the way to open one, and what is called when it has changed something:
 * it closes, and what stands on the page is asked for again.
 * @param {...(() => void)} loads @returns {[any, (dialog: any) => void, () => void]} */
export function useDialog(...loads) {
  const [asked, ask] = useState(/** @type {any} */ (null));
  const again = () => {
    ask(null);
    for (const load of loads) load();
  };
  return [asked, ask, again];
}
