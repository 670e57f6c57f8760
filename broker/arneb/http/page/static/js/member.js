/** The node that the browser has reached, as a member of its cluster. What stands on the page is asked
 * of whoever leads; this alone is said by the node itself, also while nobody leads. */
import { get } from "./api.js";
import { useEffect, useState } from "./html.js";

/**
 * What the node says of itself, again after each pause; undefined until it has, and while it says
 * nothing.
 * @param {boolean} wanted
 * @param {number} everyMs
 */
export function useMember(wanted, everyMs) {
  const [member, setMember] = useState(/** @type {any} */ (undefined));
  useEffect(() => {
    if (!wanted) return setMember(undefined);
    let timer = 0;
    let over = false;
    const ask = async () => {
      if (!document.hidden) {
        const found = await get("page/member").catch(() => undefined);
        if (over) return;
        setMember(found);
      }
      timer = setTimeout(ask, everyMs);
    };
    ask();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [wanted, everyMs]);
  return member;
}

/** Everything that is known: the node's own part first, then those of the nodes that lead.
 * @param {any} member @param {any[]} leaders what they say of themselves @returns {any[]} */
export function parts(member, leaders) {
  const known = [member, ...leaders.filter((each) => each.node !== member?.node)].filter(Boolean);
  return known.flatMap((each) => each.shards.map((/** @type {any} */ shard) => ({ node: each.node, isHere: each === member, ...shard })));
}

/** @param {any} member @param {any[]} known alarms that are shown already */
export function alarms(member, known) {
  const names = new Set(known.map((each) => each.name));
  return [...known, ...(member?.alarms ?? []).filter((/** @type {any} */ each) => !names.has(each.name))];
}
