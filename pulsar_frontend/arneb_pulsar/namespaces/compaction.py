"""Compaction: which messages are superseded by a later one of the same key.

The rule: pure. The last message of each key stays; one without a value deletes its key, and then
itself. Messages without a key go, as in Pulsar; unreadable ones (an encrypted batch, or a chunk of
a larger message) stay.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from arneb_core.api.entries.codec import codecs
from arneb_core.api.entries.entry import Origin, messages_in
from arneb_core.api.entries.position import Position
from arneb_pulsar.codec import key_outside

MessagePlace = tuple[Position, int]
"""An entry, and the index of a message in it."""


@dataclass(slots=True)
class Compaction:
    """One walk over a log, from its beginning on."""

    latest: dict[bytes, MessagePlace] = field(default_factory=dict)
    superseded: dict[Position, int] = field(default_factory=dict)
    """Entries with superseded messages: bit *i* for message *i*."""
    spent: dict[Position, int] = field(default_factory=dict)
    """Messages that deleted their keys, likewise. They go after what they deleted is gone for
    good."""
    sizes: dict[Position, int] = field(default_factory=dict)
    """Messages in the entries that hold more than one."""

    def __repr__(self) -> str:
        superseded = f"{len(self.superseded)} entries superseded"
        return f"<Compaction {len(self.latest)} keys, {superseded}, {len(self.spent)} spent>"

    def add(self, position: Position, entry: bytes) -> None:
        """Add the next entry of the log."""
        count = messages_in(entry)
        if count > 1:
            self.sizes[position] = count
        for index, (key, has_value) in enumerate(keys_in(entry)):
            if key is None:
                _add(self.superseded, position, index)
                continue
            before = self.latest.pop(key, None)
            if before is not None:
                _add(self.superseded, *before)
            if has_value:
                self.latest[key] = position, index
            else:
                _add(self.spent, position, index)

    def is_whole(self, position: Position, mask: int) -> bool:
        """Return whether these are all messages of the entry."""
        return mask == (1 << self.sizes.get(position, 1)) - 1


def _add(masks: dict[Position, int], position: Position, index: int) -> None:
    masks[position] = masks.get(position, 0) | 1 << index


def keys_in(entry: bytes) -> Sequence[tuple[bytes | None, bool]]:
    """Return the key of each message, and whether it has a value."""
    try:
        messages = codecs()[Origin(entry[1])].decode(entry)
    except KeyError:
        return []
    except ValueError:
        return _keys_outside(entry)
    return [(message.key, bool(message.value)) for message in messages]


def _keys_outside(entry: bytes) -> Sequence[tuple[bytes | None, bool]]:
    if entry[1] != Origin.PULSAR:
        return []
    try:
        found = key_outside(entry)
    except ValueError:
        return []
    return [] if found is None else [found]
