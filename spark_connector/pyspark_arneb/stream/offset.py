"""Offsets of a streaming query, as stored in its checkpoint.

The rule: an offset has everything that a restart needs, because Spark gives a Python source nothing
else back: no query id, no checkpoint directory. So it has the cursor's name, each topic's id (a
recreated topic has another one), and, in the end of a micro-batch, where the batch began in every
topic that its start lacks. Equal offsets are equal JSON, by which Spark sees that there is nothing
new.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from arneb_core.api.entries.position import Position, entry_of, ledger_of, position_at

FORMAT: Final = 1
"""The version of the JSON; an offset of another one is refused."""

_PLACE: Final = re.compile(r"(\d{1,10}):(\d{1,10})")


class OffsetError(ValueError):
    """A checkpoint holds an offset that is not one of this source."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"the checkpoint's offset is none of the source arneb: {problem}; start the query "
            "with a new checkpointLocation"
        )


@dataclass(frozen=True, slots=True)
class TopicOffset:
    """How far a query has come in one topic."""

    topic_id: int
    next: Position
    """The first entry that is not read yet."""
    messages: int = 0
    """How many messages the topic ever had before :attr:`next`, as far as that was known; this
    distinguishes a log of which only read entries were trimmed from one that lost some."""
    begin: Position | None = None
    """Where the micro-batch that ends here began, when its start offset does not say it."""
    begin_messages: int = 0
    """As :attr:`messages`, before :attr:`begin`."""

    def to_json(self) -> dict[str, Any]:
        document = {
            "id": self.topic_id,
            "next": render_position(self.next),
            "messages": self.messages,
        }
        if self.begin is not None:
            document |= {"from": render_position(self.begin), "from_messages": self.begin_messages}
        return document

    @classmethod
    def from_json(cls, given: object) -> Self:
        fields = _object(given, "a topic")
        begin = fields.get("from")
        return cls(
            _number(fields, "id"),
            _position(fields.get("next")),
            _number(fields, "messages"),
            None if begin is None else _position(begin),
            0 if begin is None else _number(fields, "from_messages"),
        )


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """A place in every topic of a query, and the cursor that keeps it."""

    topics: Mapping[str, TopicOffset] = field(default_factory=dict)
    """By full name."""
    cursor: str | None = None
    """The name of the query's cursor; None when it has none."""
    initial: bool = False
    """No micro-batch ends here. If Spark restarts before the first batch is done, it asks for a new
    initial offset, so the first batch's end has where it began."""

    def to_json(self) -> dict[str, Any]:
        """Return the offset as Spark stores it; equal offsets give equal text."""
        document: dict[str, Any] = {"arneb": FORMAT}
        if self.cursor is not None:
            document["cursor"] = self.cursor
        if self.initial:
            document["initial"] = True
        document["topics"] = {name: self.topics[name].to_json() for name in sorted(self.topics)}
        return document

    @classmethod
    def from_json(cls, given: object) -> Self:
        """Undo :meth:`to_json`. Raises :class:`OffsetError`."""
        fields = _object(given, "an offset")
        if fields.get("arneb") != FORMAT:
            raise OffsetError(f"expected format {FORMAT}, got {fields.get('arneb')!r}")
        cursor = fields.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise OffsetError(f"expected a cursor's name, got {cursor!r}")
        topics = _object(fields.get("topics"), "its topics")
        return cls(
            {name: TopicOffset.from_json(offset) for name, offset in topics.items()},
            cursor,
            fields.get("initial") is True,
        )

    def moved(self, topics: Mapping[str, TopicOffset]) -> "StreamOffset":
        """Return this offset if ``topics`` has the same positions, else the one that follows it.

        Where a batch began makes no difference.
        """
        if self._positions() == {
            name: (offset.topic_id, offset.next) for name, offset in topics.items()
        }:
            return self
        return replace(self, topics=topics, initial=False)

    def _positions(self) -> dict[str, tuple[int, Position]]:
        return {name: (offset.topic_id, offset.next) for name, offset in self.topics.items()}


def begins(start: StreamOffset, end: StreamOffset) -> dict[str, TopicOffset]:
    """Return where the micro-batch from ``start`` to ``end`` begins in every topic of ``end``.

    What ``end`` says takes precedence over ``start``, because it was stored before the batch ran.
    """
    found: dict[str, TopicOffset] = {}
    for name, offset in end.topics.items():
        before = start.topics.get(name)
        if offset.begin is not None:
            found[name] = TopicOffset(offset.topic_id, offset.begin, offset.begin_messages)
        elif before is not None and before.topic_id == offset.topic_id:
            found[name] = before
        else:
            raise OffsetError(f"expected topic {name} in the start of its micro-batch, too")
    return found


def render_position(position: Position) -> str:
    """Render a position as ``ledger:entry``, as in the options; never with an entry of -1."""
    return f"{ledger_of(position)}:{entry_of(position)}"


def _position(given: object) -> Position:
    found = _PLACE.fullmatch(given) if isinstance(given, str) else None
    if not found:
        raise OffsetError(f'expected "ledger:entry", got {given!r}')
    return position_at(int(found[1]), int(found[2]))


def _number(fields: Mapping[str, object], name: str) -> int:
    value = fields.get(name)
    if type(value) is not int or value < 0:
        raise OffsetError(f"expected a number in {name!r}, got {value!r}")
    return value


def _object(given: object, what: str) -> Mapping[str, object]:
    if not isinstance(given, dict):
        raise OffsetError(f"expected {what} as a JSON object, got {given!r}")
    return given
