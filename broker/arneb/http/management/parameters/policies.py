"""Policies of users and of operators over HTTP.

The rule: only checked policies are stored; their effect on queues is not decided here. A change
applies to all queues before its reply.
"""

from typing import Final

from arneb.http.management.lists.lists import Source, listed, listing_of
from arneb.http.management.parameters.policy_checks import check_policy
from arneb.http.management.requests.calls import (
    CREATED,
    DONE,
    Body,
    Call,
    Document,
    Refused,
    Reply,
    not_found,
)
from arneb.http.management.requests.rules import ADMINISTRATOR, POLICYMAKER, USERS, VHOST
from arneb.http.management.router import Handler, Route
from arneb.http.management.site import Site
from arneb_core.access.records import OperatorPolicy, Policy


def policy_document(policy: Policy) -> Document:
    """Return one policy's document."""
    return {
        "vhost": policy.vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": dict(policy.definition),
        "priority": policy.priority,
    }


def policy_in(kind: type[Policy], vhost: str, name: str, body: Body) -> Policy:
    """Return the policy in a body. Raises 400."""
    body.expect("pattern", "definition")
    priority, definition = body.given.get("priority", 0), body.given["definition"]
    apply_to = body.given.get("apply-to", "all")
    pattern = body.given["pattern"]
    check_policy(pattern, apply_to, definition, priority, operator=kind is OperatorPolicy)
    return kind(vhost, name, pattern, definition, apply_to, priority)


def expect_json(call: Call) -> None:
    """Raise 415 for a body whose content type is not JSON."""
    kind = call.headers.get("content-type", "application/json").partition(";")[0].strip()
    if kind.lower() != "application/json":
        raise Refused(415, "unsupported_media_type", "expected application/json")


def _lister(kind: type[Policy]) -> Handler:
    async def handle(site: Site, call: Call) -> Reply:
        vhosts = {each.name for each in await site.vhosts_for(call)}
        rows = [each for each in site.catalogue.tables.rows(kind) if each.vhost in vhosts]
        source = Source(rows, policy_document, lambda each: (each.vhost, each.name))
        return Reply(await listed(source, listing_of(call.query, paged=False), site.pause))

    return handle


def _found(kind: type[Policy], site: Site, call: Call) -> Policy:
    row = site.catalogue.get(kind, call.params["vhost"], call.params["name"])
    if row is None:
        raise not_found()
    return row


def _shower(kind: type[Policy]) -> Handler:
    async def handle(site: Site, call: Call) -> Reply:
        document = policy_document(_found(kind, site, call))
        return Reply(document)

    return handle


def _putter(kind: type[Policy]) -> Handler:
    async def handle(site: Site, call: Call) -> Reply:
        if kind is OperatorPolicy:
            expect_json(call)
        vhost = site.vhost_for_change(call).name
        policy = policy_in(kind, vhost, call.params["name"], call.document())
        existed = site.catalogue.get(kind, *policy.key) is not None
        async with site.catalogue.changing() as edit:
            edit.set_policy(policy)
        return DONE if existed else CREATED

    return handle


def _deleter(kind: type[Policy]) -> Handler:
    async def handle(site: Site, call: Call) -> Reply:
        policy = _found(kind, site, call)
        async with site.catalogue.changing() as edit:
            edit.clear_policy(kind, policy.vhost, policy.name)
        return DONE

    return handle


ROUTES: Final = tuple(
    route
    for kind, path, rule in (
        (Policy, "policies", POLICYMAKER),
        (OperatorPolicy, "operator-policies", ADMINISTRATOR),
    )
    for route in (
        Route("GET", path, USERS, _lister(kind)),
        Route("GET", f"{path}/:vhost", VHOST, _lister(kind)),
        Route("GET", f"{path}/:vhost/:name", rule, _shower(kind)),
        Route("PUT", f"{path}/:vhost/:name", rule, _putter(kind)),
        Route("DELETE", f"{path}/:vhost/:name", rule, _deleter(kind)),
    )
)
