"""Values of the protocol that all of its parts share."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple


class Place(NamedTuple):
    """Where an entry stands in the log topic; places ascend."""

    ledger: int
    entry: int

    def __str__(self) -> str:
        return f"{self.ledger}:{self.entry}"


NOWHERE: Final = Place(-1, -1)
"""Before every entry; also how Pulsar answers for what it has already."""


class Link(NamedTuple):
    """The end of the chain: the last record that counted."""

    number: int
    checksum: int


FOUNDATION: Final = Link(0, 0)
"""What the first record of a history follows."""


Addresses = tuple[tuple[str, str], ...]
"""Where a node is reached, by protocol."""


@dataclass(frozen=True, slots=True)
class Take:
    """By which a node says that an epoch is its own."""

    shard: str
    history: str
    """Names one life of the shard; :data:`.fitness` compares it."""
    epoch: int
    """Of the fencing producer that wrote it."""
    node: str
    nonce: str
    """Random: the author knows its own by it."""
    addresses: dict[str, str] = field(default_factory=dict)
    """Where clients are to go, by protocol."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A TAKE that counts, and where it stands."""

    take: Take
    place: Place

    @property
    def addresses(self) -> Addresses:
        """Where its node is reached."""
        return tuple(sorted(self.take.addresses.items()))


@dataclass(frozen=True, slots=True)
class Applied:
    """What a directory has of a topic: everything up to a record that ends a commit, and from where
    reading goes on."""

    history: str
    link: Link
    """Of the last record that is applied."""
    place: Place
    """Reading goes on behind it."""
    base: Link
    """Up to where records had counted there: all of :attr:`link`, or less. A leader that had to
    resend does not know where readers count its records, which may stand there twice; so it names
    the last that was sent once, and reads what it has applied behind that once more."""
    epoch: int = -1
    """Of the TAKE that was the last one there; -1 before the first, since Pulsar begins with 0."""
    take_place: Place = NOWHERE
    stamp_ms: int = 0
    """The highest stamp of a record that is applied."""
    leader: str = ""
    """The node whose TAKE that was, and beneath where it is reached: a node that starts may have
    read it long ago, and knows from its directory where clients are to go."""
    addresses: Addresses = ()
