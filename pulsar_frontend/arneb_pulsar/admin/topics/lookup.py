"""Lookup over HTTP: for clients whose service URL is ``http://``."""

from typing import Final
from urllib.parse import urlsplit

from arneb_pulsar.admin.calls.requests import AdminError, AdminReply, AdminRequest, document, text
from arneb_pulsar.admin.calls.router import Route
from arneb_pulsar.admin.calls.rules import on_namespace, on_topic
from arneb_pulsar.admin.namespaces.namespaces import boundaries_of
from arneb_pulsar.admin.topics.topics import topic_of
from arneb_pulsar.authorization.operations import NamespaceOperation, TopicOperation
from arneb_pulsar.namespaces.bundles import bundle_of, named
from arneb_pulsar.services.context import BrokerContext

EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})
"""Wildcard addresses, which do not say how to reach the broker."""

THIS_MACHINE: Final = frozenset({"127.0.0.1", "::1"})
"""The addresses of ``localhost``, the name that certificates have."""


async def lookup(context: BrokerContext, request: AdminRequest) -> AdminReply:
    topic = topic_of(context, request)
    context.topics.check(topic, create=True)
    if listener := request.query.get("listenerName"):
        raise AdminError(404, f"the broker do not have {listener} listener")
    url = as_reached(context.urls.plain, request.host)
    secured = as_reached(context.urls.tls, request.host)
    if not (url or secured):
        raise AdminError(503, "Pulsar clients are not served here")
    found = {"brokerUrl": url, "httpUrl": f"http://{request.host}", "nativeUrl": url}
    return document(
        found | {"brokerUrlSsl": secured} | ({"brokerUrlTls": secured} if secured else {})
    )


def as_reached(url: str, host: str) -> str:
    """Return a service URL for a caller that reached us at ``host``, which replaces a wildcard
    address; ``localhost`` replaces its own addresses, because certificates are issued for names."""
    parts = urlsplit(url)
    name = urlsplit(f"//{host}").hostname or "localhost"
    replaced = EVERYWHERE | THIS_MACHINE if name == "localhost" else EVERYWHERE
    if parts.hostname not in replaced:
        return url
    return f"{parts.scheme}://{f'[{name}]' if ':' in name else name}:{parts.port}"


async def bundle(context: BrokerContext, request: AdminRequest) -> AdminReply:
    topic = topic_of(context, request)
    return text(named(*bundle_of(boundaries_of(context, topic.namespace), str(topic))))


ROUTES: Final[list[Route]] = [
    Route(
        "GET",
        f"/lookup/v2/topic/{{domain={domain}}}/{{tenant}}/{{namespace}}/{{topic}}{end}",
        rule,
        handler,
    )
    for domain in ("persistent", "non-persistent")
    for end, rule, handler in (
        ("", on_topic(TopicOperation.LOOKUP), lookup),
        ("/bundle", on_namespace(NamespaceOperation.GET_BUNDLE), bundle),
    )
]
