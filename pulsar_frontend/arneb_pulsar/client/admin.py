"""Administration: a small client of the admin REST API, for Arneb and Apache Pulsar alike.

The rule: a call is one request; a refusal is an :class:`AdminError` with the status and where.
Answers are values; fields that only one broker has are left in :attr:`TopicStatistics.all`.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import httpx

from arneb_pulsar.client.codec.schemas.schema import SchemaInfo
from arneb_pulsar.client.connection.authentication import Authentication, NoAuthentication
from arneb_pulsar.client.connection.dialling import TlsOptions
from arneb_pulsar.client.errors import AdminError, ConnectError, InvalidTopic, TimedOut
from arneb_pulsar.client.ids import MessageId
from arneb_pulsar.client.lookup.http_calls import call
from arneb_pulsar.client.lookup.lookup import path_of, quoted, schema_in
from arneb_pulsar.names import InvalidTopicName, TopicName, parse_topic

TIMEOUT_S: Final = 30.0


class CompactionState(Enum):
    """The state of a topic's last compaction (``LongRunningProcessStatus.Status``)."""

    NOT_RUN = "NOT_RUN"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True)
class SubscriptionStatistics:
    """A subscription, as its broker sees it."""

    type: str
    messages_backlog: int
    messages_unacked: int
    consumers: int


@dataclass(frozen=True, slots=True)
class TopicStatistics:
    """A topic, as its broker sees it."""

    messages_in_total: int
    bytes_in_total: int
    storage_bytes: int
    producers: int
    subscriptions: Mapping[str, SubscriptionStatistics]
    all: Mapping[str, Any]
    """The whole answer."""


class Admin:
    """Calls of the admin API. Made by :func:`administer`."""

    def __init__(self, http: httpx.AsyncClient, authentication: Authentication) -> None:
        self._http = http
        self._authentication = authentication

    def __repr__(self) -> str:
        return f"<Admin at {self._http.base_url}>"

    # Topics

    async def topics(self, namespace: str, *, persistent: bool = True) -> Sequence[str]:
        """Return the complete names of a namespace's topics, partitions one by one."""
        domain = "persistent" if persistent else "non-persistent"
        return list(await self._call("GET", f"{domain}/{namespace}"))

    async def create_topic(self, topic: str, partitions: int = 0) -> None:
        """Create a topic; refused if it exists."""
        if partitions:
            await self._call("PUT", f"{_path(topic)}/partitions", partitions)
        else:
            await self._call("PUT", _path(topic))

    async def delete_topic(self, topic: str, *, force: bool = False) -> None:
        """Remove a topic with all its subscriptions and partitions."""
        more = "/partitions" if await self.partitions(topic) else ""
        await self._call("DELETE", f"{_path(topic)}{more}", force=force)

    async def partitions(self, topic: str) -> int:
        """Return a topic's number of partitions; 0: it is not partitioned."""
        found = await self._call("GET", f"{_path(topic)}/partitions")
        return int(found.get("partitions", 0))

    async def add_partitions(self, topic: str, partitions: int) -> None:
        """Raise a topic's number of partitions to ``partitions``."""
        await self._call("POST", f"{_path(topic)}/partitions", partitions)

    async def statistics(self, topic: str) -> TopicStatistics:
        """Return the statistics of one topic, or one partition."""
        found = await self._call("GET", f"{_path(topic)}/stats")
        subscriptions = {
            name: SubscriptionStatistics(
                type=each.get("type", ""),
                messages_backlog=int(each.get("msgBacklog", 0)),
                messages_unacked=int(each.get("unackedMessages", 0)),
                consumers=len(each.get("consumers", ())),
            )
            for name, each in found.get("subscriptions", {}).items()
        }
        return TopicStatistics(
            messages_in_total=int(found.get("msgInCounter", 0)),
            bytes_in_total=int(found.get("bytesInCounter", 0)),
            storage_bytes=int(found.get("storageSize", 0)),
            producers=len(found.get("publishers", ())),
            subscriptions=subscriptions,
            all=found,
        )

    async def lookup(self, topic: str) -> str:
        """Return the URL of the topic's broker."""
        found = await self._call("GET", path_of(_name(topic)), base="/lookup/v2/topic")
        return str(found.get("brokerUrl", ""))

    async def unload(self, topic: str) -> None:
        """Make the broker release the topic; clients reconnect by themselves."""
        await self._call("PUT", f"{_path(topic)}/unload")

    async def terminate(self, topic: str) -> MessageId:
        """Close the topic to new messages, and return the id of the last one."""
        found = await self._call("POST", f"{_path(topic)}/terminate")
        return MessageId(int(found["ledgerId"]), int(found["entryId"]))

    async def compact(self, topic: str) -> None:
        """Request a compaction, which runs later."""
        await self._call("PUT", f"{_path(topic)}/compaction")

    async def compaction(self, topic: str) -> CompactionState:
        """Return the state of the last compaction, during which Apache Pulsar does not delete a
        topic."""
        found = await self._call("GET", f"{_path(topic)}/compaction")
        return CompactionState(found["status"])

    # Subscriptions

    async def subscriptions(self, topic: str) -> Sequence[str]:
        """Return the names of a topic's subscriptions."""
        return list(await self._call("GET", f"{_path(topic)}/subscriptions"))

    async def create_subscription(
        self, topic: str, subscription: str, *, at: str = "latest"
    ) -> None:
        """Create a subscription at ``latest`` or ``earliest``."""
        await self._call("PUT", f"{_path(topic)}/subscription/{_twice(subscription)}", at)

    async def delete_subscription(
        self, topic: str, subscription: str, *, force: bool = False
    ) -> None:
        """Remove a subscription."""
        path = f"{_path(topic)}/subscription/{_twice(subscription)}"
        await self._call("DELETE", path, force=force)

    async def skip_all(self, topic: str, subscription: str) -> None:
        """Acknowledge a subscription's whole backlog."""
        await self._call("POST", f"{_path(topic)}/subscription/{_twice(subscription)}/skip_all")

    async def reset(self, topic: str, subscription: str, time_ms: int) -> None:
        """Reset a subscription to a time."""
        path = f"{_path(topic)}/subscription/{_twice(subscription)}/resetcursor/{time_ms}"
        await self._call("POST", path)

    # Namespaces and policies

    async def namespaces(self, tenant: str) -> Sequence[str]:
        """Return a tenant's namespaces, as ``tenant/namespace``."""
        return list(await self._call("GET", f"namespaces/{tenant}"))

    async def create_namespace(self, namespace: str) -> None:
        """Create ``tenant/namespace``."""
        await self._call("PUT", f"namespaces/{namespace}")

    async def delete_namespace(self, namespace: str) -> None:
        """Remove a namespace; refused unless it is empty."""
        await self._call("DELETE", f"namespaces/{namespace}")

    async def policies(self, namespace: str) -> Mapping[str, Any]:
        """Return all policies of a namespace, by the API's names."""
        found: Mapping[str, Any] = await self._call("GET", f"namespaces/{namespace}")
        return found

    async def set_policy(self, namespace: str, policy: str, value: Any) -> None:
        """Set a policy, by the name in its path: ``deduplication``, ``messageTTL``,
        ``retention``."""
        await self._call("POST", f"namespaces/{namespace}/{policy}", value)

    # Schemas

    async def schema(self, topic: str) -> SchemaInfo:
        """Return a topic's newest schema."""
        name = _name(topic)
        found = await self._call("GET", f"schemas/{name.namespace}/{quoted(name.local)}/schema")
        return SchemaInfo.from_wire(schema_in(found, name.local))

    async def delete_schema(self, topic: str) -> None:
        """Delete all versions of a topic's schema."""
        name = _name(topic)
        await self._call("DELETE", f"schemas/{name.namespace}/{quoted(name.local)}/schema")

    async def health(self) -> bool:
        """Return whether a broker answers."""
        try:
            return bool(await self._call("GET", "brokers/health") == "ok")
        except (AdminError, ConnectError, TimedOut):
            return False

    async def broker_settings(self) -> Mapping[str, Any]:
        """Return the settings of the broker that answers, by the names in its configuration
        file."""
        found: Mapping[str, Any] = await self._call("GET", "brokers/configuration/runtime")
        return found

    async def _call(
        self, method: str, path: str, body: Any = None, *, base: str = "/admin/v2", **query: bool
    ) -> Any:
        """Send a request and return the answer. Raises :class:`AdminError`, :class:`ConnectError`,
        :class:`TimedOut`."""
        where = f"{method} {base}/{path}"
        answer = await call(
            self._http,
            self._authentication,
            method,
            f"{base}/{path}",
            where,
            query={name: "true" for name, value in query.items() if value},
            body=body,
        )
        if not answer.is_success:
            raise AdminError(answer.status_code, _reason(answer), where)
        if not answer.content:
            return None
        try:
            return answer.json()
        except ValueError:
            return answer.text


@asynccontextmanager
async def administer(
    url: str,
    authentication: Authentication | None = None,
    tls: TlsOptions | None = None,
    *,
    timeout_s: float = TIMEOUT_S,
) -> AsyncIterator[Admin]:
    """Open a client of the admin API at ``url``, by HTTP or HTTPS."""
    verify = (tls or TlsOptions()).context() if url.startswith("https:") else True
    async with httpx.AsyncClient(base_url=url, timeout=timeout_s, verify=verify) as http:
        yield Admin(http, authentication or NoAuthentication())


def _reason(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["reason"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:200] or answer.reason_phrase


def _name(topic: str) -> TopicName:
    try:
        return parse_topic(topic)
    except InvalidTopicName as error:
        raise InvalidTopic(str(error)) from error


def _path(topic: str) -> str:
    return path_of(_name(topic))


def _twice(subscription: str) -> str:
    """Encode a subscription's name after that of a topic: brokers decode it twice."""
    return quoted(quoted(subscription))
