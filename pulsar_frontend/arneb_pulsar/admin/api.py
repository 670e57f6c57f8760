"""The API: every route, and how a call is answered.

The rule: every answer is JSON, with a ``reason`` or the requested data; a defect of ours becomes a
500 in one place.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

from arneb_core.api.errors import (
    CommitFailed,
    CoreError,
    NotAllowed,
    SubscriptionBusy,
    SubscriptionFenced,
    SubscriptionNotFound,
    TopicBusy,
    TopicExists,
    TopicFenced,
    TopicNotFound,
)
from arneb_pulsar.admin import transactions
from arneb_pulsar.admin.brokers import broker_statistics, brokers, clusters
from arneb_pulsar.admin.calls import unsupported
from arneb_pulsar.admin.calls.requests import (
    AdminError,
    AdminReply,
    AdminRequest,
    no_need,
    refusal,
    text,
)
from arneb_pulsar.admin.calls.router import NoSuchMethod, Route, Router
from arneb_pulsar.admin.calls.rules import check
from arneb_pulsar.admin.namespaces import bundles, namespaces
from arneb_pulsar.admin.policies import (
    permissions,
    policies,
    properties,
    replication,
    resource_groups,
    unset,
)
from arneb_pulsar.admin.subscriptions import backlogs, expiry, peeking, subscriptions
from arneb_pulsar.admin.topics import lookup, schemas, statistics, topics
from arneb_pulsar.authorization.callers import NOBODY, Caller
from arneb_pulsar.services.context import BrokerContext

ROUTER: Final = Router(
    [
        *clusters.ROUTES,
        *brokers.ROUTES,
        *broker_statistics.ROUTES,
        *namespaces.ROUTES,
        *bundles.ROUTES,
        *topics.ROUTES,
        *policies.ROUTES,
        *replication.ROUTES,
        *permissions.ROUTES,
        *properties.ROUTES,
        *resource_groups.ROUTES,
        *schemas.ROUTES,
        *subscriptions.ROUTES,
        *expiry.ROUTES,
        *peeking.ROUTES,
        *backlogs.ROUTES,
        *statistics.ROUTES,
        *lookup.ROUTES,
        *transactions.ROUTES,
        *unset.ROUTES,
    ]
)

STATUS: Final[Mapping[type[CoreError], int]] = {
    TopicNotFound: 404,
    SubscriptionNotFound: 404,
    TopicExists: 409,
    NotAllowed: 409,
    SubscriptionBusy: 412,
    SubscriptionFenced: 409,
    TopicFenced: 409,
    TopicBusy: 412,
    CommitFailed: 500,
}
"""HTTP statuses for the core's refusals."""

logger = logging.getLogger(__name__)


async def answer(
    context: BrokerContext,
    method: str,
    raw_path: str,
    query: Mapping[str, str],
    body: bytes,
    host: str,
    hold: Callable[[int], Awaitable[None]] = no_need,
    caller: Caller = NOBODY,
) -> AdminReply:
    """Answer one call. ``raw_path`` is still percent-encoded; ``hold`` is called with the size of a
    large answer. Raises only when cancelled."""
    try:
        if method == "OPTIONS" and (allowed := ", ".join(ROUTER.methods(raw_path))):
            return replace(text(allowed), headers=[("Allow", allowed)])
        route, names = _found(method, raw_path)
        request = AdminRequest(names, query, body, host, caller, hold)
        check(route.rule, context, request)
        return await route.handle(context, request)
    except NoSuchMethod as error:
        return replace(refusal(error), headers=[("Allow", ", ".join(ROUTER.methods(raw_path)))])
    except AdminError as error:
        return refusal(error)
    except CoreError as error:
        return refusal(AdminError(status_of(error), str(error)))
    except Exception:
        logger.exception("unexpected error in %s %s", method, raw_path)
        return refusal(AdminError(500, "Internal error"))


def _found(method: str, raw_path: str) -> tuple[Route, Mapping[str, str]]:
    """Return the route of a call. Raises :class:`AdminError`, with the reason for calls that are
    unsupported on purpose."""
    try:
        return ROUTER.find(method, raw_path)
    except AdminError:
        unsupported.check(raw_path)
        raise


def status_of(error: CoreError) -> int:
    """Return the HTTP status for an error of the core."""
    for cls in type(error).__mro__:
        if status := STATUS.get(cls):
            return status
    return 500
