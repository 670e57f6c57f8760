"""Login: establishes who sent a request.

The rule: each request proves its sender again, by a header or by the cookie that a login set;
nothing is remembered here.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs, quote, unquote

from arneb.http.management.requests.calls import Call, Refused, Reply
from arneb.http.management.requests.rules import Rule, Who
from arneb.http.management.router import Route
from arneb.http.management.site import Site
from arneb_core.access.authority import Authority
from arneb_core.access.principals import Credentials, LoginRefused, Principal

REALM: Final = 'Basic realm="RabbitMQ Management"'
COOKIE: Final = "auth"
MECHANISM: Final = "HTTP"

MARK: Final = "x-arneb-page"
"""A header that no form on another site can send. Requests that change something by cookie must
have it, with any value."""

FORM_BYTES_MAX: Final = 8192
"""A form with name and password; the rest of a longer one is ignored."""


CHALLENGE: Final = {"www-authenticate": REALM}
"""HTTP wants it in every 401, and some clients (Java's) fail when it is missing. A browser opens
its own login dialog on it; the page, which has a better one, gets none."""


def asked() -> Refused:
    """Return the 401 for a request without credentials."""
    return Refused(401, "", "")


def challenged(wrong: Refused) -> Refused:
    """Return a refusal with the challenge."""
    return Refused(wrong.status, wrong.error, wrong.reason, CHALLENGE)


def expect_mark(headers: Mapping[str, str]) -> None:
    """Refuse a request that another site may have made a browser send."""
    if MARK not in headers:
        raise Refused(403, "not_authorised", f"expected the header {MARK}")


def refused() -> Refused:
    """Return the 401 for wrong credentials."""
    return Refused(401, "not_authorized", "Not_Authorized")


def proof_in(headers: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the name and password in a request, or None without any. A token comes as a password
    with an empty name: it names its user itself. Raises 401."""
    scheme, _, proof = headers.get("authorization", "").partition(" ")
    if not scheme and "cookie" in headers:
        proof = _cookie(headers["cookie"])
        scheme = "basic" if proof else ""
    if not scheme:
        return None
    if scheme.lower() == "bearer":
        return "", proof.strip()
    try:
        if scheme.lower() != "basic":
            raise refused()
        name, colon, password = b64decode(proof.strip(), validate=True).decode().partition(":")
    except ValueError:
        raise refused() from None
    if not colon:
        raise refused()
    return name, password


def _cookie(text: str) -> str:
    try:
        morsel = SimpleCookie(text).get(COOKIE)
    except CookieError:
        return ""
    return "" if morsel is None else unquote(morsel.value)


async def log_in(
    authority: Authority, name: str, password: str, address: str, *, loopback: bool
) -> Principal:
    """Return the user with this name and password. Raises 401."""
    try:
        return await authority.log_in(Credentials(name, password, address, loopback, MECHANISM))
    except LoginRefused:
        raise refused() from None


async def _login(site: Site, call: Call) -> Reply:
    form = parse_qs(call.body[:FORM_BYTES_MAX].decode("utf-8", "replace"), keep_blank_values=True)
    name, password = form.get("username", [""])[0], form.get("password", [""])[0]
    loopback = call.headers.get(LOOPBACK) == "true"
    try:
        await log_in(site.authority, name, password, call.address, loopback=loopback)
    except Refused as wrong:
        raise challenged(wrong) from None
    proof = quote(b64encode(f"{name}:{password}".encode()).decode(), safe="")
    cookie = f"{COOKIE}={proof}; Path=/; HttpOnly; SameSite=Strict"
    return Reply("ok", headers={"set-cookie": cookie})


LOOPBACK: Final = ":loopback"
"""Says whether a call comes from this machine; the colon keeps clients from sending this header."""


async def _ways(site: Site, call: Call) -> Reply:
    return Reply({"oauth_enabled": False})


ROUTES: Final = (
    Route("POST", "login", Rule(Who.EVERYBODY, "it is the login itself"), _login),
    Route("GET", "auth", Rule(Who.EVERYBODY, "it says how to log in, and nothing else"), _ways),
)
