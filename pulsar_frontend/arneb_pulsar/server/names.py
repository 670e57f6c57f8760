"""Who is called what: the producers of each topic by name, over all connections."""

from dataclasses import dataclass
from typing import Generic, TypeVar

Peer = TypeVar("Peer")


@dataclass(frozen=True, slots=True)
class Claim(Generic[Peer]):
    """A name in use on a topic."""

    topic: str
    name: str
    peer: Peer
    """The connection that holds it."""


class ProducerNames(Generic[Peer]):
    """The names in use. A name is unique on its topic.

    ``token`` makes names that the broker finds differ from those of its earlier runs.
    """

    def __init__(self, token: str) -> None:
        self._token = token
        self._count = 0
        self._claims: dict[tuple[str, str], Claim[Peer]] = {}

    def new_name(self) -> str:
        """A name that nobody has."""
        self._count += 1
        return f"arneb-{self._token}-{self._count}"

    def holder(self, topic: str, name: str) -> Peer | None:
        """The connection that uses that name there."""
        claim = self._claims.get((topic, name))
        return None if claim is None else claim.peer

    def claim(self, topic: str, name: str, peer: Peer) -> Claim[Peer]:
        """Take a name that nobody holds."""
        assert (topic, name) not in self._claims, f"{name} is taken on {topic}"
        claim = self._claims[topic, name] = Claim(topic, name, peer)
        return claim

    def release(self, claim: Claim[Peer]) -> None:
        """Give a name free; one that was taken over meanwhile stays as it is."""
        if self._claims.get((claim.topic, claim.name)) is claim:
            del self._claims[claim.topic, claim.name]
