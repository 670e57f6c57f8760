/** The page begins here: who is it, and what is to be shown? */
import { call, get, whenLoggedOut } from "./api.js";
import { html, render, useEffect, useState } from "./html.js";
import { Leaderless } from "./pages/leaderless.js";
import { Login } from "./pages/login.js";
import { Said } from "./said.js";
import { Shell } from "./shell.js";
import { endStream } from "./stream.js";
import { apply } from "./theme.js";

/** While no node of a cluster leads. */
const UNAVAILABLE = 503;
const AGAIN_MS = 1500;

function Page() {
  const [user, setUser] = useState(/** @type {any} */ (undefined));
  const [unanswered, setUnanswered] = useState("");
  useEffect(() => {
    const nobody = () => {
      endStream();
      setUser(null);
    };
    whenLoggedOut(nobody);
    const ask = () =>
      get("page/session").then(setUser, (error) => {
        setUnanswered(error.status === UNAVAILABLE ? error.message : "");
        if (error.status === UNAVAILABLE) setTimeout(ask, AGAIN_MS);
        else nobody();
      });
    ask();
  }, []);
  const logOut = async () => {
    endStream();
    await call("DELETE", "page/session").catch(() => {});
    setUser(null);
  };
  if (user === undefined && unanswered) return html`<${Leaderless} reason=${unanswered} />`;
  if (user === undefined) return html`<p class="alone" aria-busy="true">Loading …</p>`;
  return html`${user ? html`<${Shell} user=${user} onLogOut=${logOut} />` : html`<${Login} onUser=${setUser} />`}
    <${Said} />`;
}

apply();
const place = /** @type {HTMLElement} */ (document.getElementById("page"));
place.replaceChildren();
render(html`<${Page} />`, place);
