"""Whether a log continues where a query stopped reading it; pure.

The rule: entries that a query should have read and cannot are reported as a loss, never skipped
silently: trimmed entries, a deleted or recreated topic, a log that ends before the position that
was reached. A trimmed ledger that was read completely is no loss.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from arneb_core.api.entries.position import Position, ledger_of, render
from arneb_core.store.reading.extents import Extent
from pyspark_arneb.log.topics import short_name
from pyspark_arneb.stream.backlog import Backlog, backlog_of, messages_until
from pyspark_arneb.stream.offset import StreamOffset, TopicOffset

BEYOND: Final = Position(1 << 63)
"""After the end of every log."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """Where to continue in one topic."""

    extent: Extent
    begin: Position
    is_known: bool
    """Whether the start offset says :attr:`begin` itself."""
    loss: str | None = None
    """What is lost before :attr:`begin`, in words for users."""

    def backlog(self, until: Position | None = None) -> Backlog:
        """Return what there is to read before ``until``."""
        return backlog_of(self.extent, self.begin, BEYOND if until is None else until)

    def offset(self, end: Position, *, initial: bool) -> TopicOffset:
        """Return the offset of a micro-batch that ends before ``end``. It includes where the batch
        began if its start does not, or (``initial``) if Spark will not know the start after a
        restart."""
        offset = TopicOffset(self.extent.topic_id, end, messages_until(self.extent, end))
        if self.is_known and not initial:
            return offset
        return replace(
            offset, begin=self.begin, begin_messages=messages_until(self.extent, self.begin)
        )


def continuations(
    start: StreamOffset, extents: Iterable[Extent], present: Collection[str]
) -> tuple[list[Continuation], list[str]]:
    """Return where to continue in each topic, and the losses besides those in the continuations:
    topics that no longer exist, or that are among ``present`` but no longer selected. A topic that
    ``start`` does not know begins at its first entry."""
    found: list[Continuation] = []
    known = dict(start.topics)
    for extent in extents:
        offset = known.pop(extent.topic, None)
        if offset is None:
            found.append(Continuation(extent, extent.first, is_known=False))
        else:
            found.append(continue_from(offset, extent))
    return found, [loss_of_topic(name, offset, present) for name, offset in known.items()]


def loss_of_topic(name: str, offset: TopicOffset, present: Collection[str]) -> str:
    """Describe, for users, what is lost of a topic that was read so far and is no longer read."""
    why = "is not read any more" if name in present else "is gone"
    reached = render(offset.next)
    return f"topic {short_name(name)} (id {offset.topic_id}) {why}, with everything after {reached}"


def continue_from(offset: TopicOffset, extent: Extent) -> Continuation:
    """Return where to continue in a topic that was read so far, and what is lost."""
    topic = short_name(extent.topic)
    if offset.topic_id != extent.topic_id:
        loss = (
            f"topic {topic} was deleted and recreated (id {offset.topic_id} is now "
            f"{extent.topic_id}): what came after {render(offset.next)} of the old one"
        )
        return Continuation(extent, extent.first, is_known=False, loss=loss)
    if offset.next > extent.end:
        loss = (
            f"topic {topic} ends at {render(extent.end)}, before {render(offset.next)} which was "
            "reached: it was restored from an older copy"
        )
        return Continuation(extent, extent.end, is_known=False, loss=loss)
    if offset.next < extent.first and not _all_was_read(offset, extent):
        lost = messages_until(extent, extent.first) - offset.messages
        amount = f"about {lost} messages of " if lost > 0 else ""
        loss = (
            f"{amount}topic {topic} from {render(offset.next)} to before {render(extent.first)}, "
            "removed by retention"
        )
        return Continuation(extent, extent.first, is_known=False, loss=loss)
    return Continuation(extent, offset.next, is_known=True)


def _all_was_read(offset: TopicOffset, extent: Extent) -> bool:
    """Return whether there was nothing between the position reached and the first entry left: the
    ledger of that position ended there, and was trimmed. The count of messages shows the same if an
    older version trimmed it."""
    if extent.first == extent.floor and extent.is_at_floor(offset.next):
        return True
    return (
        ledger_of(offset.next) < ledger_of(extent.first)
        and messages_until(extent, extent.first) == offset.messages
    )


def acknowledged_by(
    offset: StreamOffset, extents: Mapping[str, Extent]
) -> dict[str, tuple[int, Position]]:
    """Return what a query that has finished everything before ``offset`` acknowledges: by topic,
    its id and the first entry that is not acknowledged. Topics that are gone or recreated are left
    out, and so are positions beyond a log's end."""
    return {
        name: (reached.topic_id, reached.next)
        for name, reached in offset.topics.items()
        if name in extents
        and extents[name].topic_id == reached.topic_id
        and reached.next <= extents[name].end
    }
