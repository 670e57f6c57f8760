/** The management API, as the page calls it: JSON in, JSON out, by the session's cookie.
 * Paths are relative, so the page works below any prefix. */

/** A header that no form of another site can send. */
const MARK = { "x-arneb-page": "1" };

/** A call that was refused or failed. */
export class CallFailed extends Error {
  /** @param {number} status 0: the broker was not reached. @param {string} text what it said */
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** @type {() => void} */
let loggedOut = () => {};

/** Have `back` called when a call finds that the session is over. @param {() => void} back */
export function whenLoggedOut(back) {
  loggedOut = back;
}

/**
 * One call.
 * @param {string} method
 * @param {string} path below `api/`, without the first slash
 * @param {unknown} [body] sent as JSON
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>} what was answered; nothing for no body
 */
export async function call(method, path, body, signal) {
  /** @type {RequestInit} */
  const request = { method, headers: { ...MARK }, credentials: "same-origin", signal };
  if (body !== undefined) {
    request.body = body instanceof Blob ? body : JSON.stringify(body);
    request.headers = { ...MARK, "content-type": "application/json" };
  }
  let response;
  try {
    response = await fetch(`api/${path}`, request);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new CallFailed(0, "The broker cannot be reached.");
  }
  const text = await response.text();
  const answer = parsed(text);
  if (response.ok) return answer;
  const said = answer && answer.reason;
  const reason = typeof said === "string" && said ? said : said ? JSON.stringify(said) : response.statusText;
  if (response.status === 401 && said === "Not_Authorized" && path !== "page/session") loggedOut();
  throw new CallFailed(response.status, reason || `Status ${response.status}`);
}

/** @param {string} path @param {AbortSignal} [signal] */
export const get = (path, signal) => call("GET", path, undefined, signal);
/** @param {string} path @param {unknown} body */
export const put = (path, body) => call("PUT", path, body);
/** @param {string} path @param {unknown} [body] @param {AbortSignal} [signal] */
export const post = (path, body, signal) => call("POST", path, body, signal);
/** @param {string} path */
export const remove = (path) => call("DELETE", path);

/** A path of names, each encoded whole. @param {...string} names */
export const path = (...names) => names.map(encodeURIComponent).join("/");

/** What says whose it is, where each shard of a cluster counts by itself. @param {string | undefined} shard */
export const ofShard = (shard) => (shard ? `?${query({ shard })}` : "");

/** A query; what is undefined or empty is left out. @param {Record<string, unknown>} of */
export function query(of) {
  const pairs = Object.entries(of).filter(([, value]) => value !== undefined && value !== "" && value !== null);
  return pairs.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&");
}

/** @param {string} text */
function parsed(text) {
  try {
    return text ? JSON.parse(text) : undefined;
  } catch {
    return undefined;
  }
}
