/** The virtual hosts that the reader may look into, asked for once. */
import { get } from "../api.js";
import { useEffect, useState } from "../html.js";

/** @returns {string[]} */
export function useVhosts() {
  const [names, setNames] = useState(/** @type {string[]} */ ([]));
  useEffect(() => {
    get("vhosts?columns=name").then(
      (found) => setNames(found.map((/** @type {any} */ each) => each.name)),
      () => setNames([]),
    );
  }, []);
  return names;
}
