/** Logging in, with the same users as everywhere else. */
import { post } from "../api.js";
import { html, useState } from "../html.js";

/** Where the page is: its session is for no other broker behind the same proxy. */
function folder() {
  const path = location.pathname.replace(/[^/]*$/, "");
  return /^\/([A-Za-z0-9._~-]+\/)*$/.test(path) ? path : "/";
}

/** @param {{onUser: (user: any) => void}} of */
export function Login({ onUser }) {
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    setBusy(true);
    try {
      onUser(await post("page/session", { username: form.get("username"), password: form.get("password"), path: folder() }));
    } catch (error) {
      const { status, message } = /** @type {any} */ (error);
      setProblem(status === 401 ? "That name and password do not belong together, or may not be used from here." : message);
      setBusy(false);
    }
  };
  return html`<main class="alone">
    <form class="card login" onSubmit=${submit}>
      <h1 class="brand"><img src="page/arneb.svg" alt="" width="28" height="28" />Arneb</h1>
      ${problem && html`<p class="notice bad" role="alert">${problem}</p>`}
      <label>User<input name="username" autocomplete="username" required autofocus /></label>
      <label>Password<input name="password" type="password" autocomplete="current-password" required /></label>
      <button class="button first" disabled=${busy}>Log in</button>
    </form>
  </main>`;
}
