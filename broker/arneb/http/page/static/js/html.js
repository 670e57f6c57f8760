/** What all modules draw with: one line to change should the library move. Texts that are put into a
 * template are text and never markup. */
export {
  html,
  render,
  createContext,
  useContext,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "../vendor/preact-htm.js";
