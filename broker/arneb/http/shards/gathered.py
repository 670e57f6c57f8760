"""Gathered answers: a request about every shard of a cluster is sent to each shard's leader.

The rule: each leader decides what the caller may see, by the caller's own credentials. If one gives
no answer, or refuses, that is the answer: a list or total that lacks a part would look complete.
Only the management page leaves such a shard out, and says which. The memory for answers is bounded.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import trio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from arneb.http.management.definitions.file import BRACKETS_MAX
from arneb.http.management.lists.lists import Listing, Source, listed, listing_of
from arneb.http.management.requests.calls import Refused, bad_request
from arneb.http.management.requests.upload import uploaded
from arneb.http.management.requests.written import rendered
from arneb.http.routing.routed import path_of
from arneb.http.server.long_answers import between_pieces
from arneb.http.server.whole_answers import UNAVAILABLE, Answer, holding, whole_answer
from arneb.http.shards.gathering import (
    PAGES,
    Kind,
    Parts,
    alarms,
    cut,
    definitions,
    in_all,
    joined,
    kind_of,
    order_of,
    totals,
)
from arneb.http.shards.merging import (
    CLIENTS,
    OTHERS,
    ROWS,
    FirstRows,
    judge_noise,
    judge_range,
    merged,
    named,
)
from arneb.http.shards.page_parts import delayed, node, transactions, with_missing
from arneb_core.api.encoding.json_text import (
    WHOLE_CHARACTERS_MAX,
    InvalidJson,
    parse_json,
    parse_own_json,
)

HELD_BYTES_MAX: Final = 64 * 1024 * 1024
"""The parts of one answer: some 50,000 queues with all their figures."""

CUT_LAST: Final = ("columns", "sort", "sort_reverse", "page", "page_size", "name", "use_regex")
"""Query parameters that apply to the combined list."""

DEFINITIONS: Final = "/api/definitions"

PAGE_PATHS: Final = "/api/page/"
OF_SHARD: Final = "shard"
"""The query parameter by which the page names one shard."""

BAD_REQUEST: Final = 400

Wanted = Callable[[str], ASGIApp]
"""Returns the application of a shard's leader, on whichever node."""


class Gathered:
    """An application in front of a node that leads some shards."""

    def __init__(
        self,
        shards: Sequence[str],
        shard_of: Callable[[str], str],
        leader_of: Wanted,
        one: ASGIApp,
    ) -> None:
        """``shards``: the first shard first. ``shard_of``: returns a namespace's shard. ``one``
        answers requests about a single shard."""
        self._shards = shards
        self._shard_of = shard_of
        self._leader_of = leader_of
        self._one = one

    def __repr__(self) -> str:
        return f"<Gathered of {', '.join(self._shards)} before {self._one!r}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._one(scope, receive, send)
            return
        with holding():
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if shard := self._named_in(scope):
                await self._leader_of(shard)(scope, receive, send)
                return
            kind = kind_of(scope["method"], path_of(scope))
            if kind is Kind.ONE:
                await self._one(scope, receive, send)
                return
            if kind is Kind.FILE:
                answer = await self._import_definitions(scope, await body_of(receive))
            elif kind in (Kind.FOUND, Kind.EACH, Kind.CHECK):
                answer = await self._one_after_the_other(kind, scope, await body_of(receive))
            elif kind is Kind.NUMBERED:
                await body_of(receive)
                raise bad_request("expected ?shard=NAME: each shard counts by itself")
            else:
                answer = await self._gather(kind, scope)
        except Refused as refused:
            document = {"error": refused.error, "reason": refused.reason}
            answer = json_answer(document, refused.status)
        await answer.pass_on(send, is_head=scope["method"] == "HEAD")

    async def _one_after_the_other(self, kind: Kind, scope: Scope, body: bytes) -> Answer:
        """Ask one shard after another, until one has the object or one fails."""
        ends = (lambda each: each.status != 404) if kind is Kind.FOUND else _is_bad
        for shard in self._shards:
            answer = await self._asked(shard, scope, body=body)
            if ends(answer):
                break
        return answer

    def _named_in(self, scope: Scope) -> str:
        """Return the shard that a request of the page names, or an empty string. Raises 400."""
        if not path_of(scope).startswith(PAGE_PATHS):
            return ""
        shard = _query_of(scope).get(OF_SHARD, "")
        if shard and shard not in self._shards:
            known = " or ".join(self._shards)
            raise bad_request(f"expected shard {known}, got {shard[:80]!r}")
        return shard

    async def _gather(self, kind: Kind, scope: Scope) -> Answer:
        query = _query_of(scope)
        listing = listing_of(query)
        rest = {name: value for name, value in query.items() if name not in CUT_LAST}
        if kind in PAGED and listing.page is not None:
            sought: dict[str, str] = {name: query[name] for name in SOUGHT if name in query}
            return await self._page(kind, scope, {**rest, **sought}, listing)
        gathering = _Gathering(kind)
        for shard in self._shards:
            answer = await self._asked(shard, scope, query=urlencode(rest))
            await gathering.take(shard, answer)
            if gathering.has_ended:
                break
        if (refusal := gathering.refusal) is not None:
            return refusal
        parts = gathering.parts
        if kind is Kind.LIST:
            documents = [each for _, document in parts for each in document]
            source: Source[Any] = Source(documents, lambda each: each, order_of)
            return await long_answer_of(await listed(source, listing, between_pieces))
        if kind is Kind.PAGE_NODE:
            return json_answer(node(parts, gathering.missing))
        if kind is Kind.PAGE_TRANSACTIONS:
            return json_answer(with_missing(transactions, parts, gathering.missing))
        return await long_answer_of(JOINS[kind](parts))

    async def _page(
        self, kind: Kind, scope: Scope, query: Mapping[str, str], listing: Listing
    ) -> Answer:
        """Return one page, from as many first rows of each shard as could be on it."""
        assert listing.page is not None
        wanted = listing.page.number * listing.page.size
        gathering = _Gathering(kind)
        parts = [FirstRows(shard, wanted, []) for shard in self._shards]
        found: list[FirstRows] = []
        for part in parts:
            if await self._take_next(part, gathering, scope, query):
                found.append(part)
            if gathering.has_ended:
                break
        if found and not gathering.has_ended:
            judge_range(found, listing.page)  # or all rows would be read to find none
        for part in list(found):
            while not (part.has_all or gathering.has_ended):
                if not await self._take_next(part, gathering, scope, query):
                    found.remove(part)
                    break
        if (refusal := gathering.refusal) is not None:
            return refusal
        if kind is Kind.LIST:
            return json_answer(await merged(found, listing, OTHERS))
        if kind is Kind.PAGE_CLIENTS:
            judge_noise(found)
        order = CLIENTS if kind is Kind.PAGE_CLIENTS else ROWS
        shown = await merged([named(each) for each in found], listing, order)
        return json_answer({**shown, "missing": sorted(gathering.missing)})

    async def _take_next(
        self, part: FirstRows, gathering: "_Gathering", scope: Scope, query: Mapping[str, str]
    ) -> bool:
        """Put a shard's next rows into ``part``; return whether it gave an answer."""
        asked = {**query, "page": str(part.pages + 1), "page_size": str(part.size)}
        answer = await self._asked(part.shard, scope, query=urlencode(asked))
        if part.pages and answer.status == BAD_REQUEST:
            part.has_all = True  # the list has become shorter meanwhile
            return True
        document = await gathering.take(part.shard, answer)
        if document is None:
            return False
        part.take(document)
        return True

    async def _import_definitions(self, scope: Scope, body: bytes) -> Answer:
        """Have each shard import its part; the first shard, which has the users, goes first."""
        try:
            kind = Headers(scope=scope).get("content-type", "")
            found = await uploaded(kind, body, _definitions_in)
        except InvalidJson as error:
            raise bad_request(str(error)) from error
        if not isinstance(found, dict):
            raise bad_request("expected an object")
        done: list[str] = []
        for shard, part in cut(found, self._shards, self._shard_of).items():
            upload = await long_answer_of(part)
            answer = await self._asked(shard, scope, path=DEFINITIONS, body=upload.body)
            if not answer.is_good:
                return _in_part(answer, shard, done)
            done.append(shard)
        return answer

    async def _asked(
        self,
        shard: str,
        scope: Scope,
        *,
        path: str | None = None,
        query: str | None = None,
        body: bytes = b"",
    ) -> Answer:
        return await asked(self._leader_of(shard), scope, path=path, query=query, body=body)


async def asked(
    leader: ASGIApp,
    scope: Scope,
    *,
    path: str | None = None,
    query: str | None = None,
    body: bytes = b"",
) -> Answer:
    """Return a leader's answer to a request, or to one with another path or query."""
    headers = [each for each in scope["headers"] if each[0].lower() not in NOT_PASSED]
    if body:
        headers += [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
    wanted = {**scope, "headers": headers}
    if scope["method"] == "HEAD":
        wanted["method"] = "GET"
    if path is not None:
        wanted |= {"path": path, "raw_path": path.encode()}
    if query is not None:
        wanted["query_string"] = query.encode("latin-1")
    return await whole_answer(leader, wanted, HELD_BYTES_MAX, body)


class _Gathering:
    """Collects the leaders' answers to one request."""

    def __init__(self, kind: Kind) -> None:
        self._goes_on = kind in PAGES
        """Whether leaders that do not answer are left out."""
        self._held = 0
        self.parts: list[tuple[str, Any]] = []
        self.missing: dict[str, str] = {}
        self._refusal: Answer | None = None

    def __repr__(self) -> str:
        return f"<_Gathering, {len(self.parts)} answers, {len(self.missing)} missing>"

    @property
    def refusal(self) -> Answer | None:
        """The answer instead of the combined one."""
        return self._refusal if self.has_ended or not self.parts else None

    @property
    def has_ended(self) -> bool:
        """No other leader need be asked: one has refused, or is missing and cannot be left out."""
        refused = self._refusal
        return refused is not None and (not self._goes_on or refused.status != UNAVAILABLE)

    async def take(self, shard: str, answer: Answer) -> Any:
        """Take a leader's answer, and return its document; None if it is a refusal. Raises 400 if
        the answers are too large."""
        if not answer.is_good:
            answer = of_shard(answer, shard)
            if answer.status == UNAVAILABLE:
                self.missing[shard] = _reason_in(answer)
            self._refusal = answer
            return None
        self._held += len(answer.body)
        if self._held > HELD_BYTES_MAX:
            raise bad_request(
                f"the shards have more than {HELD_BYTES_MAX} bytes to say: ask for one virtual "
                "host after the other"
            )
        if len(answer.body) > WHOLE_CHARACTERS_MAX:
            document = await trio.to_thread.run_sync(parse_own_json, answer.body)
        else:
            document = json.loads(answer.body)
        self.parts.append((shard, document))
        return document


PAGED: Final = (Kind.LIST, Kind.PAGE_ROWS, Kind.PAGE_CLIENTS)

SOUGHT: Final = ("sort", "sort_reverse", "name", "use_regex")
"""Query parameters that each shard applies to its own rows when a page is requested."""

_HEADERS: Final = ((b"content-type", b"application/json"), (b"cache-control", b"no-cache"))

NOT_PASSED: Final = (b"accept-encoding", b"content-length", b"content-type", b"transfer-encoding")
"""Headers of a request that are set again for each leader."""

JOINS: Final[Mapping[Kind, Callable[[Parts], Any]]] = {
    Kind.OBJECT_OF_LISTS: joined,
    Kind.ALARMS: alarms,
    Kind.TOTALS: totals,
    Kind.DEFINITIONS: definitions,
    Kind.IN_ALL: in_all,
    Kind.PAGE_DELAYED: delayed,
}


def _is_bad(answer: Answer) -> bool:
    return not answer.is_good


def _query_of(scope: Scope) -> dict[str, str]:
    found = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    return dict(reversed(found))  # the first counts of those with one name


def _in_part(answer: Answer, shard: str, done: Sequence[str]) -> Answer:
    """Return a leader's refusal of an import, naming the shards that have imported their parts."""
    text = f"shard '{shard}': {_reason_in(answer)}"
    if done:
        text += f"; shard {' and '.join(repr(each) for each in done)} has taken in its part"
    return json_answer({"error": "bad_request", "reason": text}, answer.status)


def of_shard(answer: Answer, shard: str) -> Answer:
    """Return the answer; if it is 503, with the shard's name."""
    if answer.status != UNAVAILABLE:
        return answer
    reason, named = _reason_in(answer), f"shard '{shard}'"
    document = {
        "error": "unavailable",
        "reason": reason if reason.startswith(named) else f"{named}: {reason}",
    }
    headers = [each for each in answer.headers if each[0].lower() == b"retry-after"]
    found = json_answer(document, answer.status)
    return Answer(found.status, [*found.headers, *headers], found.body)


def _reason_in(answer: Answer) -> str:
    try:
        return str(json.loads(answer.body)["reason"])
    except (ValueError, KeyError, TypeError):
        return f"status {answer.status}"


def json_answer(document: Any, status: int = 200) -> Answer:
    """Return an answer made here."""
    return Answer(status, _HEADERS, json.dumps(document).encode())


async def long_answer_of(document: Any) -> Answer:
    """Return an answer made here, written in turns."""
    return Answer(200, _HEADERS, b"".join([each async for each in rendered(document)]))


def _definitions_in(file: bytes) -> Any:
    return parse_json(file, brackets_max=BRACKETS_MAX)


async def body_of(receive: Receive) -> bytes:
    """Return the whole body of a request."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body)
