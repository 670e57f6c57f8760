"""Answering: turns a complete request into a reply, whatever happens.

The rule: no socket, no ASGI: method, path, query and body come in, a reply goes out. The caller has
read the whole request.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import parse_qsl

from arneb.http.access.audited import LOOKING
from arneb.http.management.lists.lists import columns_of, narrowed
from arneb.http.management.login import (
    LOOPBACK,
    MARK,
    asked,
    challenged,
    expect_mark,
    log_in,
    proof_in,
    refused,
)
from arneb.http.management.requests.accepting import expect_json_wanted
from arneb.http.management.requests.calls import (
    Call,
    Refused,
    Reply,
    bad_request,
    not_authorised,
    not_found,
)
from arneb.http.management.requests.rules import Who, check
from arneb.http.management.router import ROOT, allowed, route_for
from arneb.http.management.site import Site
from arneb.http.management.table import ROUTER
from arneb_amqp.errors import AmqpError, ReplyCode
from arneb_core.access.acting import acting_as
from arneb_core.access.errors import AccessError
from arneb_core.access.principals import Principal
from arneb_core.api.encoding.json_text import is_text
from arneb_core.api.errors import CoreError

logger = logging.getLogger(__name__)

PAGE: Final = f"{ROOT}page/"
"""Paths that only the page requests; a browser's event stream cannot carry our header."""

PARAMETERS_MAX: Final = 100
"""Parameters in a query."""

_BROKEN_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class Request:
    """A request as received."""

    method: str
    raw_path: str
    """As received, still percent-encoded, without the query."""
    query: str = ""
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By name in lower case."""
    address: str = ""
    loopback: bool = False
    caller: Principal | None = None
    """The sender, if known without a login."""
    scheme: str = "http"


async def answer(site: Site, request: Request) -> Reply:
    """Return the reply to a request, or to the error it causes."""
    try:
        return await _answer(site, request)
    except Refused as refused:
        return refusal(refused)
    except AmqpError as error:
        return refusal(in_http(error))
    except AccessError as error:
        return refusal(bad_request(str(error)))
    except CoreError as error:
        logger.warning("%s %s failed: %s", request.method, request.raw_path[:200], error)
        return refusal(Refused(503, "unavailable", str(error)))


async def _answer(site: Site, request: Request) -> Reply:
    _expect_whole_escapes(request.raw_path)
    methods, params = ROUTER.find(request.raw_path)
    if request.method == "OPTIONS":
        return Reply(headers={"allow": allowed(methods)})
    route = route_for(methods, request.method)
    caller = NOBODY
    headers = request.headers
    if route.rule.who is not Who.EVERYBODY:
        caller = await _caller(site, request)
    else:
        headers = {**headers, LOOPBACK: "true" if request.loopback else "false"}
    call = Call(
        route.method, caller, params, _query(request.query), request.body, headers,
        request.address, request.scheme,
    )  # fmt: skip
    if not all(map(is_text, params.values())):
        raise not_found()
    await check(route.rule, call)
    if not request.raw_path.startswith(PAGE):
        expect_json_wanted(headers)
    with acting_as(caller.name):
        reply = await route.handle(site, call)
    if call.method == "GET":
        _expect_whole_escapes(request.query)  # RabbitMQ looks at it last, and only in a GET
    return _narrowed(reply, call)


def _narrowed(reply: Reply, call: Call) -> Reply:
    """Return the reply with the columns that a query asks for. Those of a page are in its items
    already."""
    if call.method != "GET" or "page" in call.query:
        return reply
    columns = columns_of(call.query)
    return reply if columns is None else replace(reply, body=narrowed(reply.body, columns))


async def _caller(site: Site, request: Request) -> Principal:
    if request.caller is not None:
        return request.caller
    headers = request.headers
    if "authorization" not in headers and "cookie" in headers:
        session = site.sessions.find(headers["cookie"])
        if session is not None:
            if request.method not in LOOKING:
                expect_mark(headers)
            return session.principal
    by_page = MARK in headers or request.raw_path.startswith(PAGE)
    try:
        proof = proof_in(headers)
        if proof is None:
            raise refused() if by_page else asked()
        return await log_in(site.authority, *proof, request.address, loopback=request.loopback)
    except Refused as wrong:
        raise wrong if by_page else challenged(wrong) from None


def _expect_whole_escapes(encoded: str) -> None:
    """Refuse a percent sign that no two hexadecimal digits follow; like RabbitMQ, with no word."""
    if _BROKEN_ESCAPE.search(encoded) is not None:
        raise Refused(400, "", "")


def _query(text: str) -> dict[str, str]:
    """Read parameters. The first counts of those with one name, as in RabbitMQ."""
    try:
        found = parse_qsl(text, keep_blank_values=True, max_num_fields=PARAMETERS_MAX)
        return dict(reversed(found))
    except ValueError:
        raise bad_request(f"expected at most {PARAMETERS_MAX} parameters") from None


def in_http(error: AmqpError) -> Refused:
    """Return an AMQP error as RabbitMQ reports it over HTTP."""
    match error.reply_code:
        case ReplyCode.NOT_FOUND:
            return not_found(error.explanation, "not_found")
        case ReplyCode.ACCESS_REFUSED | ReplyCode.NOT_ALLOWED:
            return not_authorised("Access refused.")
    return bad_request(error.explanation)


def refusal(refused: Refused) -> Reply:
    """Return the reply to a refused call."""
    body = {"error": refused.error, "reason": refused.reason}
    empty = not refused.error or refused.status == 405
    return Reply(None if empty else body, refused.status, refused.headers)


class _Nothing:
    may_be_kept = False

    def may(self, vhost: str, question: object) -> bool:
        return False

    def limits_keys(self, vhost: str, exchange: str) -> bool:
        return True

    async def ask(self, vhost: str, question: object) -> None:
        """Do nothing: every verdict is known."""

    async def renew(self, user: str, secret: str) -> None:
        """Do nothing: there are no credentials."""

    async def admits(self, vhost: str, address: str) -> bool:
        return False


NOBODY: Final = Principal("", _Nothing())
"""The caller of a route that is open to everybody."""
