/** What is asked for once and again after a change, and the dialogs that change it. */
import { get } from "../api.js";
import { useEffect, useRef, useState } from "../html.js";

/** An answer in the form of the stream's, with the way to ask again. Of two that were asked for the
 * later one counts, whichever comes first. @param {string} from @returns {[any, () => Promise<void>]} */
export function useOnce(from) {
  const [answer, setAnswer] = useState(/** @type {any} */ (undefined));
  const asked = useRef(0);
  const load = async () => {
    const mine = (asked.current += 1);
    const found = await get(from).then(
      (body) => ({ status: 200, body }),
      (error) => ({ status: error.status, body: { reason: error.message } }),
    );
    if (mine === asked.current) setAnswer(found);
  };
  useEffect(() => {
    load();
  }, [from]);
  return [answer, load];
}

/** The dialog that is open, the way to open one, and what is called when it has changed something:
 * what stands on the page is asked for again, and it closes. So the next dialog begins with what there
 * is now, and nothing comes and is put over what somebody types into it.
 * @param {...(() => Promise<void>)} loads @returns {[any, (dialog: any) => void, () => Promise<void>]} */
export function useDialog(...loads) {
  const [asked, ask] = useState(/** @type {any} */ (null));
  const again = async () => {
    await Promise.all(loads.map((load) => load()));
    ask(null);
  };
  return [asked, ask, again];
}
