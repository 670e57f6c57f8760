"""The producers of every topic, over all connections, and the epochs of exclusive ones.

The rule: an epoch is on disk before it is given out, so no crash lets a fenced producer return.
Metadata of a topic is kept under its id: a recreated topic is another.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from arneb_core.api.core import Core, Unit
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CommitFailed, CoreError
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.authorization.callers import Caller
from arneb_pulsar.packing.counts import ProducerCounts
from arneb_pulsar.producers.access import NO_EPOCH, Access, AccessMode, Claim, ClaimRefused, Refusal
from arneb_pulsar.services.clients.connections import ClientConnection
from arneb_pulsar.session.errors import Failure, failure_of
from arneb_pulsar.session.interface.assigned import NOWHERE, Assigned
from arneb_pulsar.session.interface.effects import AppendRun, ProducerKey
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

TOPICS: Final = "pulsar/topic/"
"""Key prefix of metadata about single topics; the id follows, then the kind."""

EPOCH: Final = "epoch"

CODES: Final = {Refusal.BUSY: pb.ProducerBusy, Refusal.FENCED: pb.ProducerFenced}

FENCED_OUT: Final = Failure(pb.ProducerFenced, "Fenced out")


class ProducerOwner(Protocol):
    """The producers of one connection; told what becomes of them and of what they send."""

    def producer_name(self, key: ProducerKey) -> str | None:
        """Return the name of a producer, None if it is not there."""
        ...

    @property
    def caller(self) -> Caller:
        """The identity that they send as."""
        ...

    def claimed(self, claim: "ProducerClaim") -> None:
        """The claim has its name, or a place in the queue; it must be released."""
        ...

    def queued(self, claim: "ProducerClaim") -> None:
        """The producer waits for its turn."""
        ...

    def admitted(self, claim: "ProducerClaim", epoch: int | None) -> None:
        """The producer may send."""
        ...

    def lost(self, claim: "ProducerClaim", failure: Failure) -> None:
        """Another producer has the topic for itself now, or this one never got it."""
        ...

    def disconnect(self, key: ProducerKey, assigned: Assigned = NOWHERE) -> None:
        """Close a producer, which may be opened again."""
        ...

    def appended(self, run: AppendRun, error: CoreError | None, first: Position) -> None:
        """The run is stored, or failed."""
        ...


@dataclass(frozen=True, slots=True)
class ConnectedProducer:
    """A producer with its connection, and its key there."""

    connection: ClientConnection
    owner: ProducerOwner
    key: ProducerKey
    topic: Topic
    schema_version: bytes = b""
    """The schema version of what it sends."""
    producer_id: int = 0
    """Its client's number for it."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """The properties that its client gave it."""
    since: str = ""
    """When it came."""
    counts: ProducerCounts = field(default_factory=ProducerCounts)
    """What it sent."""

    def __repr__(self) -> str:
        where = f"{self.topic.name}, number {self.producer_id}"
        return f"<ConnectedProducer on {where} by {self.connection.address}>"


ProducerClaim = Claim[ConnectedProducer]


def metadata_key(topic: Topic, what: str) -> str:
    """Return the metadata key of something about ``topic``."""
    return f"{TOPICS}{topic.id}/{what}"


def stored(core: Core) -> Iterator[tuple[str, str, bytes]]:
    """Yield all metadata about topics: the id, the kind and the value."""
    for key, value in core.metadata(TOPICS).items():
        topic, _, what = key.removeprefix(TOPICS).partition("/")
        yield topic, what, value


class ProducerRegistry:
    """The producers of all topics. ``token`` makes names chosen by the broker differ from those of
    its earlier runs."""

    def __init__(self, core: Core, token: str) -> None:
        self._core = core
        self._token = token
        self._count = 0
        self._accesses: dict[int, Access[ConnectedProducer]] = {}
        """By the id of the topic; only for topics in use."""
        self._epochs = {
            int(topic): int(value) for topic, what, value in stored(core) if what == EPOCH
        }
        """Epochs as they are on disk, by the id of the topic."""

    def __repr__(self) -> str:
        claims = sum(len(each.owners) + len(each.waiting) for each in self._accesses.values())
        return f"<ProducerRegistry {claims} on {len(self._accesses)} topics>"

    def new_name(self) -> str:
        """Return a name that no producer has."""
        self._count += 1
        return f"arneb-{self._token}-{self._count}"

    def producing(self, topic: Topic) -> list[ProducerClaim]:
        """Return the producers of ``topic`` that may send."""
        access = self._accesses.get(topic.id)
        return [] if access is None else list(access.owners.values())

    def of(self, topic: Topic) -> list[ProducerClaim]:
        """Return the producers of ``topic``, including those that wait."""
        access = self._accesses.get(topic.id)
        return [] if access is None else [*access.owners.values(), *access.waiting]

    def epoch(self, topic: Topic) -> int | None:
        """Return the epoch of the topic's last exclusive producer, None if it never had one."""
        return self._epochs.get(topic.id)

    def all(self) -> list[ProducerClaim]:
        """Return all producers, including those that wait."""
        accesses = self._accesses.values()
        return [claim for each in accesses for claim in (*each.owners.values(), *each.waiting)]

    def topics(self) -> list[Topic]:
        """Return the topics with producers."""
        claims = (next(iter(each.owners.values()), None) for each in self._accesses.values())
        return [claim.holder.topic for claim in claims if claim is not None]

    def in_the_way(self, topic: Topic, name: str) -> Iterator[ClientConnection]:
        """Yield the connections of producers that stand in the way of a claim to ``name``."""
        access = self._accesses.get(topic.id)
        if access is None:
            return
        for claim in list(access.owners.values()):
            if claim.name == name or claim.mode is not AccessMode.SHARED:
                yield claim.holder.connection

    def claim(self, claim: ProducerClaim) -> None:
        """Make a claim; its connection is told the result, now or later. Raises
        :class:`ClaimRefused`."""
        topic = claim.holder.topic
        access = self._accesses.get(topic.id)
        if access is None:
            epoch = self._epochs.get(topic.id, NO_EPOCH)
            access = self._accesses[topic.id] = Access(epoch)
        try:
            admission = access.claim(claim)
        except ClaimRefused:
            self._forget_unused(topic)
            raise
        claim.holder.owner.claimed(claim)
        for each in admission.fenced:
            each.holder.owner.lost(each, FENCED_OUT)
        if admission.queued:
            claim.holder.owner.queued(claim)
        else:
            self._admit(claim, admission.epoch)

    def release(self, claim: ProducerClaim) -> None:
        """Release a claim; a waiting producer has its turn. Idempotent."""
        topic = claim.holder.topic
        access = self._accesses.get(topic.id)
        if access is not None:
            promoted = access.release(claim)
            self._forget_unused(topic)
            if promoted is not None:
                self._admit(promoted, access.epoch)

    def forget_except(self, topics: Container[int]) -> None:
        """Forget the epochs of all topics but these ids: the others are gone."""
        for topic in [each for each in self._epochs if each not in topics]:
            del self._epochs[topic]

    def sweep(self) -> None:
        """Remove the metadata of topics that are gone."""
        ids = {str(topic.id) for topic in self._core.topics.values()}
        stale = [
            f"{TOPICS}{topic}/{what}" for topic, what, _ in stored(self._core) if topic not in ids
        ]
        if stale:
            # If it fails, the next start sweeps again.
            self._core.commit(Unit(metadata=[(key, None) for key in stale]), lambda error: None)

    # Inside

    def _admit(self, claim: ProducerClaim, epoch: int | None) -> None:
        """Admit the producer once its epoch is durable; shared producers begin none."""
        topic = claim.holder.topic
        present = self._epochs.get(topic.id)
        if epoch is None or epoch == present:
            claim.holder.owner.admitted(claim, present)
            return
        unit = Unit()
        if topic.durable:
            unit.metadata.append((metadata_key(topic, EPOCH), b"%d" % epoch))
        self._core.commit(unit, partial(self._epoch_stored, claim, epoch))

    def _epoch_stored(self, claim: ProducerClaim, epoch: int, error: CommitFailed | None) -> None:
        topic = claim.holder.topic
        if error is None:
            self._epochs[topic.id] = max(epoch, self._epochs.get(topic.id, NO_EPOCH))
        access = self._accesses.get(topic.id)
        if access is None or not access.holds(claim):
            return  # it left, or was fenced out and told so
        if error is None:
            claim.holder.owner.admitted(claim, epoch)
        else:
            claim.holder.owner.lost(claim, failure_of(error))
            self.release(claim)

    def _forget_unused(self, topic: Topic) -> None:
        if self._accesses[topic.id].unused:
            del self._accesses[topic.id]
