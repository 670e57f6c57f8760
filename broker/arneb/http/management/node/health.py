"""Health: whether the node works, for probes and load balancers.

The rule: a check answers 200 with ``ok``, or 503 with the reason.
"""

from datetime import timedelta
from typing import Any, Final

from pamqp.commands import Queue as Methods

from arneb.http.management.node.nodes import listeners_of
from arneb.http.management.requests.calls import (
    Call,
    Document,
    Refused,
    Reply,
    bad_request,
    not_found,
)
from arneb.http.management.requests.rules import USERS, VHOST
from arneb.http.management.router import Route
from arneb.http.management.site import Site
from arneb.http.management.topology.messages import by_channel
from arneb_amqp.server.operations.connectionless import Taking
from arneb_amqp.wire.properties import Properties
from arneb_amqp.wire.replies import make
from arneb_core.api.process.resource_alarms import Resource

ALIVENESS: Final = "aliveness-test"
"""The queue through which the test message goes."""

_WORDS: Final = {
    Resource.MEMORY: "memory", Resource.DISK: "disk space", Resource.LOG: "replicated log",
}  # fmt: skip

_ALIASES: Final = {
    "amqp091": "amqp", "amqp0-9-1": "amqp", "amqp0.9.1": "amqp", "amqp10": "amqp",
    "amqps": "amqp/ssl", "ui": "http", "management": "http", "http_api": "http",
    "management-ui": "http", "mgmt": "http",
}  # fmt: skip

_UNITS: Final = {
    "days": timedelta(days=1),
    "weeks": timedelta(weeks=1),
    "months": timedelta(days=30),
    "years": timedelta(days=365),
}

OK: Final = Reply({"status": "ok"})


def _failed(reason: str, **more: Any) -> Reply:
    return Reply({"status": "failed", "reason": reason, **more}, 503)


async def _alarms(site: Site, call: Call) -> Reply:
    short = site.alarms.resource_alarms.short
    if not short:
        return OK
    alarms: list[Document] = [{"node": site.node, "resource": _WORDS[each]} for each in short]
    where = "on the node" if call.params.get("local") else "in the cluster"
    return _failed(f"There are alarms in effect {where}", alarms=alarms)


async def _port(site: Site, call: Call) -> Reply:
    text = call.params["port"]
    if not (text.isascii() and text.isdecimal()):
        raise bad_request("Invalid port")
    port, ports = int(text), sorted({each.port for each in site.ports()})
    if port in ports:
        return Reply({"status": "ok", "port": port})
    return _failed("No active listener", missing=port, ports=ports)


async def _protocol(site: Site, call: Call) -> Reply:
    asked = call.params["protocol"]
    wanted = _ALIASES.get(asked.lower(), asked.lower())
    protocols = sorted({each["protocol"] for each in listeners_of(site)})
    if wanted in protocols:
        return Reply({"status": "ok", "protocol": asked})
    return _failed("No active listener", missing=asked, protocols=protocols)


async def _vhosts(site: Site, call: Call) -> Reply:
    return OK


async def _certificates(site: Site, call: Call) -> Reply:
    unit = _UNITS.get(call.params["unit"])
    within = call.params["within"]
    if not (within.isascii() and within.isdecimal()) or len(within) > 6:
        raise bad_request("Invalid expiration value.")
    if unit is None:
        raise bad_request("Time unit not recognised. Supported units: days, weeks, months, years.")
    expired = site.expiring(int(within) * unit)
    if not expired:
        return OK
    return _failed("Certificates expiring", expired=[{"path": each} for each in expired])


async def _critical(site: Site, call: Call) -> Reply:
    return Reply({"status": "ok", "reason": "single node cluster"})


async def _alive(site: Site, call: Call) -> Reply:
    site.vhost_of(call)
    with by_channel():
        return await _there_and_back(site, call)


async def _there_and_back(site: Site, call: Call) -> Reply:
    actor = await site.acting(call)
    declare = make(
        Methods.Declare, ticket=0, queue=ALIVENESS, passive=False, durable=False,
        exclusive=False, auto_delete=False, nowait=False, arguments={},
    )  # fmt: skip
    await actor.perform(declare)
    await actor.publish("", ALIVENESS, Properties(), b"test_message")
    taken = await actor.take(ALIVENESS, 1, Taking(no_ack=True))
    if not taken:
        raise Refused(500, "internal_server_error", "the message did not come back")
    return OK


async def _node(site: Site, call: Call) -> Reply:
    if call.params.get("node", site.node) != site.node:
        raise not_found()
    reply = await _alarms(site, call)
    if reply is OK:
        return OK
    return Reply({"status": "failed", "reason": "resource alarm(s) in effect"})


_CHECKS: Final = "health/checks"

ROUTES: Final = (
    Route("GET", f"{_CHECKS}/alarms", USERS, _alarms),
    Route("GET", f"{_CHECKS}/local-alarms", USERS, _alarms),
    Route("GET", f"{_CHECKS}/port-listener/:port", USERS, _port),
    Route("GET", f"{_CHECKS}/protocol-listener/:protocol", USERS, _protocol),
    Route("GET", f"{_CHECKS}/virtual-hosts", USERS, _vhosts),
    Route("GET", f"{_CHECKS}/certificate-expiration/:within/:unit", USERS, _certificates),
    Route("GET", f"{_CHECKS}/node-is-quorum-critical", USERS, _critical),
    Route("GET", f"{_CHECKS}/node-is-mirror-sync-critical", USERS, _critical),
    Route("GET", "aliveness-test/:vhost", VHOST, _alive),
    Route("GET", "healthchecks/node", USERS, _node),
    Route("GET", "healthchecks/node/:node", USERS, _node),
)
