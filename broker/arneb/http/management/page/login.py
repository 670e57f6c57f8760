"""Login and logout at the page.

The rule: a password is sent once; from then on a session stands for it.
"""

import re
from base64 import b64encode
from typing import Final

from arneb.http.management.login import LOOPBACK, expect_mark, log_in
from arneb.http.management.requests.calls import Call, Document, Reply, bad_request
from arneb.http.management.requests.rules import USERS, Rule, Who, is_administrator, is_monitor
from arneb.http.management.router import Route
from arneb.http.management.sessions import ROOT_PATH, cookie_for
from arneb.http.management.site import Site
from arneb_core.access.principals import Principal

SECURE: Final = "https"

PROOF: Final = ":proof"
"""Another node asks for the session user's credentials, for leaders that do not know the user; the
colon keeps clients from sending this header."""

SHOWN: Final = "true"
"""The header's value if the request came by TLS all the way. Otherwise the credentials are not
shown, only that there are some."""

PATH: Final = re.compile(r"/([A-Za-z0-9._~-]+/)*")
"""Paths that a page may give for its cookie: none contains a character that ends an attribute."""

PATH_CHARACTERS_MAX: Final = 200


async def _open(site: Site, call: Call) -> Reply:
    expect_mark(call.headers)
    body = call.document()
    body.expect("username", "password")
    loopback = call.headers.get(LOOPBACK) == "true"
    name, password = body.text("username"), body.text("password")
    principal = await log_in(site.authority, name, password, call.address, loopback=loopback)
    path = body.text("path", ROOT_PATH)
    if len(path) > PATH_CHARACTERS_MAX or not PATH.fullmatch(path):
        raise bad_request(f"expected a plain path that ends in a slash, got {path[:100]!r}")
    session = site.sessions.open(principal, path)
    cookie = cookie_for(session.token, secure=is_secure(call), path=path)
    return Reply(_shown(principal), headers={"set-cookie": cookie})


async def _look(site: Site, call: Call) -> Reply:
    shown, secret = _shown(call.caller), call.caller.secret
    if PROOF in call.headers and secret is not None:
        proof = b64encode(f"{call.caller.name}:{secret}".encode()).decode()
        shown["proof"] = proof if call.headers[PROOF] == SHOWN else ""
    return Reply(shown)


async def _close(site: Site, call: Call) -> Reply:
    session, path = site.sessions.find(call.headers.get("cookie", "")), ROOT_PATH
    if session is not None:
        path = session.path
        site.sessions.end(session)
    headers = {"set-cookie": cookie_for("", secure=is_secure(call), path=path)}
    return Reply(status=204, headers=headers)


def is_secure(call: Call) -> bool:
    """Return whether the call came by TLS, here or up to a proxy in front."""
    return SECURE in (call.scheme, call.headers.get("x-forwarded-proto", "").lower())


def _shown(principal: Principal) -> Document:
    return {
        "name": principal.name,
        "tags": sorted(principal.tags),
        "is_administrator": is_administrator(principal),
        "is_monitor": is_monitor(principal),
    }


ROUTES: Final = (
    Route("POST", "page/session", Rule(Who.EVERYBODY, "it is the login itself"), _open),
    Route("GET", "page/session", USERS, _look),
    Route("DELETE", "page/session", USERS, _close),
)
