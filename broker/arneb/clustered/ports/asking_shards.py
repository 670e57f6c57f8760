"""Asking shards: a Pulsar client's questions before it uses a topic, sent to the topic's shard.

The rule: a client asks about all namespaces on one connection; each question goes to its shard's
broker, which checks the client's own credentials, and the answer goes back unchanged. The client
need not know which broker answered. Questions that a lost broker leaves unanswered are answered
here, with a request to retry. Pure: nothing waits, and no socket is used.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from arneb_pulsar.wire import commands
from arneb_pulsar.wire.errors import CommandError
from arneb_pulsar.wire.frame import FrameReader, payload_frame
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import BaseCommand

SHARD_DOMAIN: Final = ".shard.arneb"
"""The domain of the host names that stand for shards' brokers; they are never resolved."""

SHARD_PORT: Final = 6650

PENDING_MAX: Final = 10_000
"""The most unanswered questions of one client to one shard; clients ask 1,000 at a time."""

Failed = Callable[[int, pb.ServerError, str], bytes]

TOPIC_FIELDS: Final = ("lookupTopic", "partitionMetadata", "getSchema", "getOrCreateSchema")
NAMESPACE_FIELDS: Final = ("getTopicsOfNamespace", "watchTopicList")

FAILURES: Final[dict[str, Failed]] = {
    "lookupTopic": commands.lookup_failed,
    "partitionMetadata": commands.partitions_failed,
    "getSchema": commands.schema_failed,
    "getOrCreateSchema": commands.schema_not_attached,
}
"""How to answer that a question should be retried, by its kind; others get an error."""


def url_of_shard(shard: str, *, by_tls: bool) -> str:
    """Return the URL that clients get for a shard's broker: they connect through the node that they
    reached, and name it there. The name is in hexadecimal, because not every name can be a host
    name."""
    scheme = "pulsar+ssl" if by_tls else "pulsar"
    return f"{scheme}://s{shard.encode().hex()}{SHARD_DOMAIN}:{SHARD_PORT}"


def shard_at(address: str) -> str:
    """Return the shard whose broker is at ``host:port``; empty if there is none."""
    host = address.rpartition(":")[0]
    if not host.endswith(SHARD_DOMAIN) or not host.startswith("s"):
        return ""
    try:
        return bytes.fromhex(host.removesuffix(SHARD_DOMAIN)[1:]).decode()
    except ValueError:
        return ""


@dataclass(slots=True)
class _Side:
    """The state of the connection to one shard's broker."""

    frames: FrameReader = field(default_factory=FrameReader)
    pending: dict[int, str] = field(default_factory=dict)
    """The kinds of unanswered questions, by id."""
    held: list[bytes] = field(default_factory=list)
    """Questions that wait until the broker has admitted the client."""
    said_hello: bool = False


class AskingShards:
    """One client that asks."""

    def __init__(self, shard_of: Callable[[str], str], first: str, hello: bytes) -> None:
        """``shard_of`` returns a namespace's shard, ``first`` is the shard for everything else, and
        ``hello`` is the client's CONNECT frame."""
        self._shard_of = shard_of
        self._first = first
        self.hello = hello
        self._frames = FrameReader()
        self._sides: dict[str, _Side] = {}
        self._watchers: dict[int, str] = {}

    def __repr__(self) -> str:
        return f"<AskingShards of {', '.join(self._sides) or 'none'}>"

    def opened(self, shard: str) -> None:
        """Note that a shard's broker has been sent the hello."""
        self._sides[shard] = _Side()

    def from_client(self, data: bytes) -> list[tuple[str, bytes]]:
        """Return what goes to which shard's broker. Raises :class:`FrameError` and
        :class:`CommandError`."""
        found = [
            (self._shard_for(command), payload_frame(command, body))
            for command, body in zip(*self._frames.receive(data), strict=True)
        ]
        if self._frames.error is not None:
            raise self._frames.error
        return [
            (each, frame)
            for shard, frame in found
            for each in (self._sides if shard is None else (shard,))
        ]

    def ask(self, shard: str, frame: bytes) -> bytes:
        """Take a question for an opened broker; return what to send there now. Raises
        :class:`CommandError` for too many unanswered ones."""
        side, command = self._sides[shard], _command_in(frame)
        name = commands.FIELD_OF[command.type]
        if name in TOPIC_FIELDS or name in NAMESPACE_FIELDS:
            if len(side.pending) >= PENDING_MAX:
                raise CommandError(f"expected at most {PENDING_MAX} questions at a time")
            side.pending[getattr(command, name).request_id] = name
        if shard == self._first or side.said_hello:
            return frame
        side.held.append(frame)
        return b""

    def from_shard(self, shard: str, data: bytes) -> tuple[bytes, bytes]:
        """Return what to pass on to the client, and what to answer the broker. Raises
        :class:`FrameError` and :class:`CommandError`."""
        side = self._sides[shard]
        to_client, to_shard = [], []
        for command, body in zip(*side.frames.receive(data), strict=True):
            parsed = commands.parse_command(command)
            if shard != self._first:
                if parsed.type == BaseCommand.PING:
                    to_shard.append(commands.PONG)
                    continue
                if parsed.type == BaseCommand.CONNECTED and not side.said_hello:
                    side.said_hello = True  # the client already has this answer, from the first one
                    to_shard += side.held
                    side.held.clear()
                    continue
            fields = getattr(parsed, commands.FIELD_OF[parsed.type])
            if "request_id" in fields.DESCRIPTOR.fields_by_name:
                side.pending.pop(fields.request_id, None)
            to_client.append(payload_frame(command, body))
        if side.frames.error is not None:
            raise side.frames.error
        return b"".join(to_client), b"".join(to_shard)

    def ended(self, shard: str, why: str) -> bytes:
        """Note that a broker is gone; return the answers to the questions it left unanswered."""
        side = self._sides.pop(shard, None)
        self._watchers = {key: each for key, each in self._watchers.items() if each != shard}
        if side is None:
            return b""
        return b"".join(
            FAILURES.get(name, commands.error)(request_id, pb.ServiceNotReady, why)
            for request_id, name in side.pending.items()
        )

    def _shard_for(self, data: bytes) -> str | None:
        """Return the shard that a command is for; None: every shard."""
        command = commands.parse_command(data)
        name = commands.FIELD_OF[command.type]
        fields = getattr(command, name)
        if name in TOPIC_FIELDS:
            return self._shard_of(_namespace_of(fields.topic))
        if name in NAMESPACE_FIELDS:
            shard = self._shard_of(fields.namespace)
            if name == "watchTopicList":
                self._watchers[fields.watcher_id] = shard
            return shard
        if name == "watchTopicListClose":
            return self._watchers.pop(fields.watcher_id, self._first)
        return None if name == "authResponse" else self._first


def _command_in(frame: bytes) -> BaseCommand:
    [command], _ = FrameReader().receive(frame)
    return commands.parse_command(command)


def _namespace_of(topic: str) -> str:
    """Return the namespace of a topic's name, complete or short for the default namespace."""
    parts = topic.rpartition("://")[2].split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else "public/default"


def connect_in(data: bytes) -> tuple[bytes, pb.CommandConnect] | None:
    """Return a client's CONNECT frame and command; None if it is incomplete. Raises
    :class:`FrameError` and :class:`CommandError`."""
    frames = FrameReader()
    found, bodies = frames.receive(data)
    if frames.error is not None:
        raise frames.error
    if not found:
        return None
    command = commands.parse_command(found[0])
    if command.type != BaseCommand.CONNECT:
        raise CommandError("expected CONNECT first")
    return payload_frame(found[0], bodies[0]), command.connect
