/** The shell: the bar at the side, alarms, and the page that the route names. */
import { html, useEffect, useRef, useState } from "./html.js";
import { bytes, capital } from "./format.js";
import { alarms, useMember } from "./member.js";
import { PAGES } from "./pages.js";
import { to, useRoute } from "./route.js";
import { useStreamState, useWatch, whyUnanswered } from "./stream.js";
import { onTheme, theme, turn } from "./theme.js";
import { turnZone, useIsUtc } from "./zone.js";

/** What the side bar offers: groups of pages, and who sees them. */
const MENU = [
  { title: "Messages", links: [["overview", "Overview"], ["queues", "Queues and topics"], ["exchanges", "Exchanges"], ["delayed", "Delayed"], ["trace", "Trace"]] },
  { title: "Clients", links: [["connections", "Connections"], ["channels", "Channels"], ["transactions", "Transactions"]] },
  { title: "Administration", links: [["users", "Users"], ["vhosts", "Virtual hosts"], ["policies", "Policies"], ["definitions", "Definitions"]] },
];

/** What it offers as well in a cluster. */
const OF_MEMBERS = [{ title: "Nodes", links: [["cluster", "Cluster"]] }];

/** How often the node says how it does as a member: where that is looked at, and elsewhere. */
const CLOSE_MS = 1000;
const NOW_AND_THEN_MS = 5000;

/** Which entry of the menu is lit on a page that has none of its own. */
const BELOW = /** @type {Record<string, string>} */ ({ topics: "queues", "pulsar-connections": "connections", "operator-policies": "policies" });

/** @param {{user: any, onLogOut: () => void}} of */
export function Shell({ user, onLogOut }) {
  const route = useRoute();
  const main = useRef(/** @type {HTMLElement | null} */ (null));
  const { node } = useWatch({ node: "page/node" });
  const isUnanswered = useStreamState() === "unanswered";
  const isMember = Boolean(node?.body?.cluster) || isUnanswered;
  const isWatched = route.page === "cluster" || isUnanswered;
  const member = useMember(isMember, isWatched ? CLOSE_MS : NOW_AND_THEN_MS);
  const Page = PAGES[route.page] ?? PAGES.missing;
  const key = [route.page, ...route.names].join("/");
  const first = useRef(true);
  useEffect(() => {
    if (route.page === "logout") onLogOut();
    if (!first.current) main.current?.querySelector("h1")?.focus();
    first.current = false;
    scrollTo(0, 0);
  }, [key]);
  return html`<div class="frame">
      <${Side} onSkip=${(/** @type {Event} */ e) => skip(e, main.current)} route=${route} user=${user} node=${node?.body} isMember=${isMember} onLogOut=${onLogOut} />
      <main class="main" ref=${main}>
        <${Lost} />
        ${alarms(member, isUnanswered ? [] : (node?.body?.alarms ?? [])).map((/** @type {any} */ each) => html`<${Alarm} key=${each.name} alarm=${each} />`)}
        <${Page} key=${key} page=${route.page} user=${user} names=${route.names} options=${route.options} node=${node?.body} member=${member} />
      </main>
    </div>`;
}

/** @param {Event} event @param {HTMLElement | null} main */
function skip(event, main) {
  event.preventDefault();
  main?.querySelector("h1")?.focus();
}

/** @param {any} of */
function Side({ route, user, node, isMember, onLogOut, onSkip }) {
  const [open, setOpen] = useState(false);
  const [shown, setShown] = useState(theme());
  const isUtc = useIsUtc();
  useEffect(() => onTheme(() => setShown(theme())), []);
  useEffect(() => setOpen(false), [route]);
  const lit = BELOW[route.page] ?? route.page;
  return html`<header class="side" data-open=${open ? "yes" : "no"}>
    <a class="skip" href=${location.hash} onClick=${onSkip}>To the content</a>
    <a class="brand" href="#/"><img src="page/arneb.svg" alt="" width="28" height="28" />Arneb</a>
    <button class="button menu" aria-expanded=${open} onClick=${() => setOpen(!open)}>Menu</button>
    <nav aria-label="Pages">
      ${[...MENU, ...(isMember ? OF_MEMBERS : [])].map(
        (group) => html`<div><p id=${`menu-${group.title}`}>${group.title}</p>
          <ul aria-labelledby=${`menu-${group.title}`}>
            ${group.links.map(([page, title]) => html`<li><a href=${page === "overview" ? "#/" : to(page)} aria-current=${page === lit ? "page" : undefined}>${title}</a></li>`)}
          </ul>
        </div>`,
      )}
    </nav>
    <div class="who">
      <div class="row"><span class="strong break">${user.name}</span><button class="button plain" onClick=${onLogOut}>Log out</button></div>
      <div class="row"><span class="quiet small">${node ? `Arneb ${node.version}` : ""}</span><button class="button plain" onClick=${turnZone}>${isUtc ? "Local" : "UTC"} times</button></div>
      <div class="row"><span></span><button class="button plain" onClick=${turn}>${shown === "dark" ? "Light" : "Dark"} colours</button></div>
    </div>
  </header>`;
}

function Lost() {
  const state = useStreamState();
  const isLost = state === "lost";
  const text = state === "unanswered" && whyUnanswered();
  return html`<div class="stack-none" role="status">
    ${text && html`<p class="notice warn"><span class="strong">Nobody answers at the moment</span>${capital(text)}. What is shown is not current. The page continues by itself.</p>`}
    ${isLost && html`<p class="notice warn"><span class="strong">The broker does not answer</span>What is shown is not current. The page continues by itself as soon as it is back.</p>`}</div>`;
}

/** @param {{alarm: any}} of */
function Alarm({ alarm }) {
  const figures = alarm.limit ? ` ${bytes(alarm.is)}, with a limit of ${bytes(alarm.limit)}.` : "";
  return html`<div class="notice bad" role="alert"><span class="strong">${alarm.text}${figures}</span>${alarm.advice}</div>`;
}
