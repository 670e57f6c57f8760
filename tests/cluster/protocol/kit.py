"""A leader's epoch, built by hand, for tests that list the topic's content entry by entry."""

from arneb_cluster.protocol.entries import Kind, encode_record, encode_take
from arneb_cluster.protocol.values import FOUNDATION, NOWHERE, Applied, Leader, Link, Place, Take
from arneb_cluster.protocol.window import Send, Window

SHARD, HISTORY = "s", "h"
EMPTY = Applied(HISTORY, FOUNDATION, NOWHERE, FOUNDATION)
BYTES_MAX = 620


def take(epoch: int, node: str = "n1", history: str = HISTORY, shard: str = SHARD) -> Take:
    return Take(shard, history, epoch, node, f"{node}/{epoch}")


def at(number: int) -> Place:
    return Place(1, number)


def take_bytes(epoch: int, node: str = "n1", history: str = HISTORY, shard: str = SHARD) -> bytes:
    return encode_take(take(epoch, node, history, shard))


class Epoch:
    """Makes the records of one TAKE."""

    def __init__(self, epoch: int, place: Place, before: Link = FOUNDATION) -> None:
        self.epoch, self.place, self.link = epoch, place, before

    def record(
        self, body: bytes = b"", kind: Kind = Kind.CHANGES, stored: int = 0, stamp_ms: int = 7
    ) -> bytes:
        data, self.link = encode_record(
            kind, self.epoch, self.link, stored, stamp_ms, self.place, body
        )
        return data


class LeadingWindow:
    """A window whose effects are examined one kind at a time."""

    def __init__(self) -> None:
        self.window = Window(Leader(take(1), at(0)), FOUNDATION, 1, BYTES_MAX)
        self.stored: list[tuple[str, Place, Link, float]] = []
        self.window.attached(0.0)

    def commit(self, name: str, size: int = 4, now: float = 0.0) -> None:
        body = name.encode().ljust(size, b".")
        self.window.commit(
            body,
            5,
            lambda item, place, base, _: self.stored.append((name, place, base, item.sent_at)),
            now,
        )

    def effects(self) -> list[object]:
        made, self.window.effects = self.window.effects, []
        return list(made)

    def sent(self) -> list[int]:
        """The sequence ids that are sent now; no other effect may be requested."""
        made = self.effects()
        assert all(isinstance(each, Send) for each in made), made
        return [each.sequence for each in made if isinstance(each, Send)]

    def data(self) -> dict[int, bytes]:
        return {each.sequence: each.data for each in self.effects() if isinstance(each, Send)}

    @property
    def names(self) -> list[str]:
        return [name for name, *_ in self.stored]

    @property
    def why(self) -> str:
        return self.window.lost.why if self.window.lost else ""
