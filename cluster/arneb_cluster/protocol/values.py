"""Values of the protocol that all of its parts share."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple


class Place(NamedTuple):
    """The place of an entry in the log topic; places ascend."""

    ledger: int
    entry: int

    def __str__(self) -> str:
        return f"{self.ledger}:{self.entry}"


NOWHERE: Final = Place(-1, -1)
"""Before every entry; also Pulsar's answer for an entry it already has."""


class Link(NamedTuple):
    """The end of the chain: the last record that counted."""

    number: int
    checksum: int


FOUNDATION: Final = Link(0, 0)
"""The link that a history's first record follows."""


Addresses = tuple[tuple[str, str], ...]
"""A node's addresses, by protocol."""


@dataclass(frozen=True, slots=True)
class Take:
    """A node's claim to an epoch."""

    shard: str
    history: str
    """Names one life of the shard; :data:`.fitness` compares it."""
    epoch: int
    """The epoch of the fencing producer that wrote it."""
    node: str
    nonce: str
    """Random: the author recognises its own TAKE by it."""
    addresses: dict[str, str] = field(default_factory=dict)
    """The addresses for clients, by protocol."""


@dataclass(frozen=True, slots=True)
class Leader:
    """A TAKE that counts, and its place."""

    take: Take
    place: Place

    @property
    def addresses(self) -> Addresses:
        """The addresses of its node."""
        return tuple(sorted(self.take.addresses.items()))


@dataclass(frozen=True, slots=True)
class Applied:
    """What a directory has of a topic: everything up to a record that ends a commit, and where to
    read on."""

    history: str
    link: Link
    """The link of the last applied record."""
    place: Place
    """Reading continues after it."""
    base: Link
    """The last record that had counted there: :attr:`link`, or an earlier one. A leader that had to
    resend does not know where readers count its records, which may be in the topic twice; so it
    names the last one sent only once, and records applied after that are read again."""
    epoch: int = -1
    """The epoch of the last TAKE there; -1 before the first, because Pulsar starts at 0."""
    take_place: Place = NOWHERE
    stamp_ms: int = 0
    """The highest stamp of an applied record."""
    leader: str = ""
    """The author of that TAKE; its addresses follow. A node that starts may have read that TAKE
    long ago, and knows from its directory where to send clients."""
    addresses: Addresses = ()
