"""Routing previews: where a message would go, and which objects a policy would match.

The rule: nothing is changed. Routes are found as for a real message, with the same search.
"""

from typing import Final

from arneb.http.management.page.log_lookup import expect_right
from arneb.http.management.requests.arguments import arguments_in
from arneb.http.management.requests.calls import Call, Reply, bad_request, not_found
from arneb.http.management.requests.rules import POLICYMAKER, VHOST
from arneb.http.management.router import Route
from arneb.http.management.site import Site
from arneb_amqp.routing.search import Search
from arneb_amqp.session.rights import DEFAULT_EXCHANGE_NAME
from arneb_amqp.wire.json_fields import text_to_json
from arneb_core.access.errors import InvalidAccess
from arneb_core.access.patterns import compiled_for_many
from arneb_core.access.principals import Kind
from arneb_core.access.rights import Right

NAMED_MAX: Final = 100
"""Names in one answer, which also has their total number."""

NAMES_PER_TURN: Final = 100

KINDS: Final = {
    "all": ("queues", "exchanges"),
    "queues": ("queues",),
    "exchanges": ("exchanges",),
    "classic_queues": ("classic",),
    "quorum_queues": ("quorum",),
    "streams": ("stream",),
}
"""The objects that a policy may apply to, by the value of ``apply-to``."""


async def _route(site: Site, call: Call) -> Reply:
    vhost, body, exchange = site.vhost_of(call), call.document(), call.exchange
    if exchange not in vhost.router.exchanges:
        raise not_found()
    await expect_right(call, Right.READ, exchange or DEFAULT_EXCHANGE_NAME, Kind.EXCHANGE)
    headers = arguments_in(body, "headers")
    search = Search(vhost.router, exchange, body.text("routing_key", ""), headers)
    while not search.step():
        await site.pause()
    found = search.result
    return Reply(
        {
            "queues": [text_to_json(each) for each in found.queues[:NAMED_MAX]],
            "queues_total": len(found.queues),
            "delayed_by": [text_to_json(each) for each in found.delayed_by],
        }
    )


async def _preview(site: Site, call: Call) -> Reply:
    vhost, body = site.vhost_of(call), call.document()
    body.expect("pattern")
    pattern, kinds = body.text("pattern"), KINDS.get(body.text("apply-to", "all"))
    if kinds is None:
        raise bad_request(f"expected apply-to to be one of {', '.join(KINDS)}")
    try:
        matches = compiled_for_many(pattern)
        names = {"queues": list[str](), "exchanges": list[str]()}
        queues = [
            each.name
            for each in await site.by_name.of(vhost.queues)
            if "queues" in kinds or each.options.type.value in kinds
        ]
        exchanges = sorted(filter(None, vhost.router.exchanges)) if "exchanges" in kinds else []
        for kind, all_names in (("queues", queues), ("exchanges", exchanges)):
            for begin in range(0, len(all_names), NAMES_PER_TURN):
                some = all_names[begin : begin + NAMES_PER_TURN]
                names[kind] += [each for each in some if matches(each)]
                await site.pause()
    except InvalidAccess as error:
        raise bad_request(str(error)) from None
    return Reply(
        {
            "queues": [text_to_json(each) for each in names["queues"][:NAMED_MAX]],
            "queues_total": len(names["queues"]),
            "exchanges": [text_to_json(each) for each in names["exchanges"][:NAMED_MAX]],
            "exchanges_total": len(names["exchanges"]),
        }
    )


ROUTES: Final = (
    Route("POST", "page/route/:vhost/:exchange", VHOST, _route),
    Route("POST", "page/policies/:vhost/preview", POLICYMAKER, _preview),
)
