/** The page begins here: who is it, and what is to be shown? */
import { call, get, whenLoggedOut } from "./api.js";
import { html, render, useEffect, useState } from "./html.js";
import { Login } from "./pages/login.js";
import { Said } from "./said.js";
import { Shell } from "./shell.js";
import { endStream } from "./stream.js";
import { apply } from "./theme.js";

function Page() {
  const [user, setUser] = useState(/** @type {any} */ (undefined));
  useEffect(() => {
    const nobody = () => {
      endStream();
      setUser(null);
    };
    whenLoggedOut(nobody);
    get("page/session").then(setUser, nobody);
  }, []);
  const logOut = async () => {
    endStream();
    await call("DELETE", "page/session").catch(() => {});
    setUser(null);
  };
  if (user === undefined) return html`<p class="alone" aria-busy="true">Loading …</p>`;
  return html`${user ? html`<${Shell} user=${user} onLogOut=${logOut} />` : html`<${Login} onUser=${setUser} />`}
    <${Said} />`;
}

apply();
const place = /** @type {HTMLElement} */ (document.getElementById("page"));
place.replaceChildren();
render(html`<${Page} />`, place);
