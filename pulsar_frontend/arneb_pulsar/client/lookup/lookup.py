"""Lookup: which broker has a topic, how many partitions it has, and which topics there are.

The rule: one question, one answer or one error; the caller decides whether to ask again. By the
binary protocol redirects are followed as brokers say; by HTTP one answer names the topic's broker.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import quote

import httpx

from arneb_pulsar.client.connection.authentication import Authentication
from arneb_pulsar.client.connection.dialling import Address, ServiceUrl, parse_address
from arneb_pulsar.client.connection.pool import Pool
from arneb_pulsar.client.connection.rotation import NO_ANSWER, Rotation
from arneb_pulsar.client.errors import (
    AuthenticationFailed,
    InvalidUrl,
    NotAuthorized,
    ServiceNotReady,
    TopicNotFound,
    UnexpectedAnswer,
    UnknownServerError,
)
from arneb_pulsar.client.lookup.http_calls import call
from arneb_pulsar.client.lookup.search import BrokerAddress, Search, State
from arneb_pulsar.names import TopicName
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandGetSchema,
    CommandGetSchemaResponse,
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandPartitionedTopicMetadata,
    Schema,
)

PARTITIONS_MAX: Final = 65_536
"""The most partitions of one topic. Each needs a producer or a consumer, so an answer with more
could exhaust the application's memory."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The topics of a namespace."""

    topics: tuple[str, ...]
    """Complete names; partitions one by one."""
    hash: str = ""
    filtered: bool = False
    """The broker has applied the pattern."""
    changed: bool = True
    """False: the list still has the given hash, and is not sent again."""


class Lookup(Protocol):
    """Answers questions about topics."""

    async def broker_of(self, topic: TopicName) -> BrokerAddress:
        """Return who serves the topic, which is created if it does not exist and policy allows.
        Raises :class:`PulsarError`."""

    async def partitions(self, topic: TopicName, *, create: bool = True) -> int:
        """Return a topic's number of partitions; 0: it is not partitioned. ``create``: asking may
        create the topic."""

    async def topics(
        self, namespace: str, domain: str, pattern: str = "", known: str = ""
    ) -> Listing:
        """Return the topics of ``tenant/namespace``. ``known`` is the hash of a list that the
        caller has already."""

    async def schema(
        self, topic: TopicName, version: bytes | None = None
    ) -> CommandGetSchemaResponse:
        """Return a schema of the topic; None: its newest."""


MODES: Final = {
    "persistent": CommandGetTopicsOfNamespace.PERSISTENT,
    "non-persistent": CommandGetTopicsOfNamespace.NON_PERSISTENT,
    "": CommandGetTopicsOfNamespace.ALL,
}


class BinaryLookup:
    """Asks by the binary protocol."""

    def __init__(self, pool: Pool, *, listener: str, timeout_s: float) -> None:
        self._pool = pool
        self._listener = listener or None
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"<BinaryLookup over {self._pool!r}>"

    async def broker_of(self, topic: TopicName) -> BrokerAddress:
        """See :class:`Lookup`."""
        connection = await self._pool.any()
        search = Search(topic, parse_address(connection.machine.where), self._listener)
        while True:
            reply = await connection.request(search.question(), search.what, self._timeout_s)
            search.answer(reply)
            if search.state is State.FOUND:
                return search.broker
            connection = await self._pool.to(search.broker.address, search.broker.through)

    async def partitions(self, topic: TopicName, *, create: bool = True) -> int:
        """See :class:`Lookup`."""
        connection = await self._pool.any()
        command = CommandPartitionedTopicMetadata(
            topic=str(topic), metadata_auto_creation_enabled=create
        )
        reply = await connection.request(command, f"partitions of {topic}", self._timeout_s)
        return _count_of(reply.partitions, topic)

    async def topics(
        self, namespace: str, domain: str, pattern: str = "", known: str = ""
    ) -> Listing:
        """See :class:`Lookup`."""
        connection = await self._pool.any()
        command = CommandGetTopicsOfNamespace(
            namespace=namespace,
            mode=MODES[domain],
            topics_pattern=pattern or None,
            topics_hash=known or None,
        )
        reply: CommandGetTopicsOfNamespaceResponse = await connection.request(
            command, f"topics of {namespace}", self._timeout_s
        )
        return Listing(tuple(reply.topics), reply.topics_hash, reply.filtered, reply.changed)

    async def schema(
        self, topic: TopicName, version: bytes | None = None
    ) -> CommandGetSchemaResponse:
        """See :class:`Lookup`."""
        connection = await self._pool.any()
        command = CommandGetSchema(topic=str(topic), schema_version=version)
        reply: CommandGetSchemaResponse = await connection.request(
            command, f"schema of {topic}", self._timeout_s
        )
        return reply


class HttpLookup:
    """Asks by HTTP, for clients with an HTTP service URL."""

    def __init__(
        self,
        service: ServiceUrl,
        http: httpx.AsyncClient,
        authentication: Authentication,
        *,
        listener: str,
    ) -> None:
        self._service = service
        self._http = http
        self._authentication = authentication
        self._listener = listener
        self._hosts = Rotation(service.hosts, NO_ANSWER)

    def __repr__(self) -> str:
        return f"<HttpLookup at {self._service}>"

    async def broker_of(self, topic: TopicName) -> BrokerAddress:
        """See :class:`Lookup`."""
        query = {"listenerName": self._listener} if self._listener else {}
        found = await self._get(f"/lookup/v2/topic/{path_of(topic)}", query, f"lookup of {topic}")
        tls = self._service.tls
        url = (
            (found.get("brokerUrlTls") or found.get("brokerUrlSsl"))
            if tls
            else found.get("brokerUrl")
        )
        if not url:
            raise UnknownServerError(f"lookup of {topic}: expected a broker's URL, got {found}")
        return BrokerAddress(_address_in(str(url), f"lookup of {topic}"))

    async def partitions(self, topic: TopicName, *, create: bool = True) -> int:
        """See :class:`Lookup`."""
        path = f"/admin/v2/{path_of(topic)}/partitions"
        query = {"checkAllowAutoCreation": "true" if create else "false"}
        found = await self._get(path, query, f"partitions of {topic}")
        return _count_of(found.get("partitions", 0), topic)

    async def topics(
        self, namespace: str, domain: str, pattern: str = "", known: str = ""
    ) -> Listing:
        """See :class:`Lookup`; the pattern is left to the client."""
        mode = {"persistent": "PERSISTENT", "non-persistent": "NON_PERSISTENT", "": "ALL"}[domain]
        path = f"/admin/v2/namespaces/{namespace}/topics"
        found = await self._get(path, {"mode": mode}, f"topics of {namespace}")
        names = found.get("list")
        return Listing(tuple(map(str, names)) if isinstance(names, list) else ())

    async def schema(
        self, topic: TopicName, version: bytes | None = None
    ) -> CommandGetSchemaResponse:
        """See :class:`Lookup`."""
        path = f"/admin/v2/schemas/{topic.namespace}/{quoted(topic.local)}/schema"
        if version is not None:
            path += f"/{int.from_bytes(version, 'big')}"
        found = await self._get(path, {}, f"schema of {topic}")
        schema = schema_in(found, topic.local)
        number = found.get("version", 0)
        if not isinstance(number, int) or not 0 <= number < 1 << 64:
            raise UnexpectedAnswer(f"schema of {topic}: expected a version, got {number!r}")
        return CommandGetSchemaResponse(
            request_id=0, schema=schema, schema_version=number.to_bytes(8, "big")
        )

    async def _get(self, path: str, query: dict[str, str], what: str) -> dict[str, object]:
        async def ask(server: tuple[str, int]) -> httpx.Response:
            host, port = server
            url = f"{self._service.scheme}://{host}:{port}{path}"
            return await call(self._http, self._authentication, "GET", url, what, query=query)

        return _content(await self._hosts.ask(ask), what)


def _content(answer: httpx.Response, what: str) -> dict[str, object]:
    if answer.is_success:
        try:
            found = answer.json()
        except ValueError as error:
            got = f"{answer.text[:200]!r} of {answer.url.netloc.decode()}"
            raise UnexpectedAnswer(f"{what}: expected JSON, got {got}") from error
        return found if isinstance(found, dict) else {"list": found}
    host = answer.url.netloc.decode()
    text = f"{what}: {answer.status_code} of {host}: {answer.text[:200]}"
    kinds = {
        401: AuthenticationFailed,
        403: NotAuthorized,
        404: TopicNotFound,
        503: ServiceNotReady,
    }
    raise kinds.get(answer.status_code, UnknownServerError)(text)


def _address_in(url: str, what: str) -> Address:
    """Return the broker that an answer names. Raises :class:`UnexpectedAnswer`."""
    try:
        return parse_address(url)
    except InvalidUrl as error:
        raise UnexpectedAnswer(f"{what}: expected a broker's address, got {url!r}") from error


def _count_of(partitions: object, topic: TopicName) -> int:
    """Return the number of partitions in an answer. Raises :class:`UnexpectedAnswer`."""
    if isinstance(partitions, int) and 0 <= partitions <= PARTITIONS_MAX:
        return partitions
    raise UnexpectedAnswer(
        f"partitions of {topic}: expected at most {PARTITIONS_MAX}, got {partitions!r}"
    )


def path_of(topic: TopicName) -> str:
    """Return the topic as a path of the admin API."""
    return f"{topic.domain}/{topic.namespace}/{quoted(topic.local)}"


def quoted(name: str) -> str:
    """Encode a name as one part of a path."""
    return quote(name, safe="")


def schema_in(found: Mapping[str, object], name: str) -> Schema:
    """Return the schema in an answer of the admin API."""
    names = {each.upper(): number for each, number in Schema.Type.items()}
    kind = str(found.get("type")).replace("_", "").upper()
    if kind not in names:
        raise UnexpectedAnswer(f"schema of {name}: expected a type, got {found.get('type')!r}")
    return Schema(name=name, type=names[kind], schema_data=str(found.get("data", "")).encode())
