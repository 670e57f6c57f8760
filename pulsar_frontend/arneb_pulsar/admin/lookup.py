"""Lookup over HTTP: for clients whose service URL is ``http://``."""

from typing import Final

from arneb_pulsar.admin.exchange import AdminError, AdminReply, AdminRequest, document, text
from arneb_pulsar.admin.namespaces import BOUNDARIES
from arneb_pulsar.admin.router import Route
from arneb_pulsar.admin.topics import topic_of
from arneb_pulsar.server.door import Door


async def lookup(door: Door, request: AdminRequest) -> AdminReply:
    topic = topic_of(door, request)
    door.check(topic, create=True)
    if listener := request.query.get("listenerName"):
        raise AdminError(404, f"the broker do not have {listener} listener")
    url = door.service_url
    if not url:
        raise AdminError(503, "Pulsar clients are not served here")
    found = {"brokerUrl": url, "nativeUrl": url, "httpUrl": f"http://{request.host}"}
    return document(found | {"brokerUrlSsl": "", "brokerUrlTls": ""})


async def bundle(door: Door, request: AdminRequest) -> AdminReply:
    topic_of(door, request)
    return text("_".join(BOUNDARIES))


ROUTES: Final[list[Route]] = [
    (
        "GET",
        f"/lookup/v2/topic/{{domain={domain}}}/{{tenant}}/{{namespace}}/{{topic}}{end}",
        handler,
    )
    for domain in ("persistent", "non-persistent")
    for end, handler in (("", lookup), ("/bundle", bundle))
]
