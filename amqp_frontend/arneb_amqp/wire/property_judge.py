"""Judging property lists: which are well formed, and whose messages must be inspected.

The rule: nothing here is called for a message whose property list equals the previous one; the
reader compares bytes. :class:`PropertyJudge` checks new lists.
"""

from collections.abc import Callable
from itertools import pairwise
from struct import Struct, error
from typing import Final, NamedTuple

from arneb_amqp.wire.constants import DIRECT_REPLY_TO
from arneb_amqp.wire.properties import (
    DELIVERY_MODE_PERSISTENT,
    DELIVERY_MODE_TRANSIENT,
    EXPIRATION_MS_MAX,
    TABLE_SIZE,
    TIMESTAMP,
    PropertyFlag,
    flags_of,
    malformed,
    names_in,
    table_end,
)
from arneb_amqp.wire.tables import check_table, decode_table

INTERESTING: Final = PropertyFlag.USER_ID | PropertyFlag.REPLY_TO
"""The reader's default mask: publishes with one of these properties come singly, but for a
``reply-to`` that names a queue, which every task of Celery has: it means nothing to a broker. So
do, whatever the mask, those with a header named CC or BCC, those whose delivery mode is neither 1
nor 2, and those whose expiration is no number of milliseconds."""

PERSISTENT: Final = 1
"""Bit of a judgement: delivery mode 2."""
SINGLE: Final = 2
"""Bit of a judgement: the message's properties must be inspected."""

_PRIORITY_SHIFT: Final = 2
_PRIORITY_MASK: Final = 0xFF
_LIFETIME_SHIFT: Final = 10
"""From here on: the expiration in ms, plus 1; 0 without one. Integers, because the reader compares
the judgement of each message with that of its run."""

_PRIORITY: Final = int(PropertyFlag.PRIORITY)
_REPLY_TO: Final = int(PropertyFlag.REPLY_TO)
_DIRECT: Final = bytes((len(DIRECT_REPLY_TO),)) + DIRECT_REPLY_TO.encode()

_KNOWN_MODES: Final = (None, DELIVERY_MODE_TRANSIENT, DELIVERY_MODE_PERSISTENT)


SKELETONS_MAX: Final = 256
_FREE_MAX: Final = 2 * 64
"""Edges of the free parts of a skeleton; with more, it would take too much memory."""

COPIES: Final = frozenset({"CC", "BCC"})
"""The headers that name additional routing keys."""


class PropertyJudge:
    """Checks property lists and judges how the reader must treat their messages.

    Lists of one client mostly differ only in the text of an id or a header. So for each length the
    judge remembers a *skeleton* of a list it has judged: the flags, all lengths, the names and
    types of headers, the delivery mode and the priority. A list with the same skeleton is equally
    well formed and has the same judgement, but for the expiration, which is read. A skeleton costs
    more than it saves unless it is met again, so the judge makes no more skeletons than it has met
    again, plus a few to begin with.
    """

    __slots__ = ("_credit", "_mask", "_skeletons")

    def __init__(self, interesting: PropertyFlag = INTERESTING) -> None:
        self._mask = int(interesting)
        self._credit = SKELETONS_MAX
        self._skeletons: dict[int, _Skeleton] = {}

    def __repr__(self) -> str:
        return f"<PropertyJudge {len(self._skeletons)} skeletons>"

    def judge(self, data: bytes) -> int:
        """Return a combination of :data:`PERSISTENT` and :data:`SINGLE` for the property list
        ``data``; without :data:`SINGLE`, also what :func:`priority_in` and :func:`expiration_in`
        find.

        Raises :class:`~arneb_amqp.errors.ConnectionException` (502) when it is malformed.
        """
        skeleton = self._skeletons.get(len(data))
        if skeleton is not None and skeleton[0](data) == skeleton[1]:
            self._credit += 1
            _, _, judgement, begin, end = skeleton
            return judgement | _lifetime(data[begin:end]) if begin else judgement
        found = _walk(data)
        judgement = PERSISTENT if found.delivery_mode == DELIVERY_MODE_PERSISTENT else 0
        begin, end = found.expiration
        if found.flags & self._mask or found.has_cc or found.delivery_mode not in _KNOWN_MODES:
            judgement |= SINGLE
            begin = end = 0
        else:
            judgement |= found.priority << _PRIORITY_SHIFT
        if self._credit and len(found.free) <= _FREE_MAX:
            self._credit -= 1
            self._remember(data, found.free, judgement, begin, end)
        return judgement | _lifetime(data[begin:end]) if begin else judgement

    def _remember(self, data: bytes, free: list[int], judgement: int, begin: int, end: int) -> None:
        if len(self._skeletons) >= SKELETONS_MAX:
            self._skeletons.clear()
        edges = [0, *free, len(data)]
        lengths = [b - a for a, b in pairwise(edges)]
        kept_and_free = zip(lengths[::2], [*lengths[1::2], 0], strict=True)
        unpack = Struct("".join(f"{kept}s{skipped}x" for kept, skipped in kept_and_free)).unpack
        self._skeletons[len(data)] = unpack, unpack(data), judgement, begin, end


def priority_in(judgement: int) -> int:
    """Return the priority of a message with this judgement, 0 without one."""
    return judgement >> _PRIORITY_SHIFT & _PRIORITY_MASK


def expiration_in(judgement: int) -> int | None:
    """Return the expiration, in ms, of a message with this judgement; None without one."""
    lifetime = judgement >> _LIFETIME_SHIFT
    return lifetime - 1 if lifetime else None


def _lifetime(text: bytes) -> int:
    """Return the bits of an expiration. What is not just digits is RabbitMQ's to judge, which takes
    a sign and names each fault."""
    if text.isdigit() and (expiration_ms := int(text)) <= EXPIRATION_MS_MAX:
        return expiration_ms + 1 << _LIFETIME_SHIFT
    return SINGLE


_Skeleton = tuple[Callable[[bytes], object], object, int, int, int]
"""What unpacks the fixed parts of a list, these parts, the judgement, and where the text of the
expiration begins and ends; 0 without one."""


class _Findings(NamedTuple):
    flags: int
    """Those of the properties that may matter to a broker."""
    delivery_mode: int | None
    has_cc: bool
    priority: int
    expiration: tuple[int, int]
    """Where its text begins and ends."""
    free: list[int]
    """Start and end, in order, of every part that does not affect the judgement."""


def _walk(data: bytes) -> _Findings:
    """Check ``data`` and collect what the judgement depends on."""
    mode: int | None = None
    has_cc = False
    priority = 0
    expiration = (0, 0)
    free: list[int] = []
    try:
        flags, at = flags_of(data), 2
        for name in names_in(flags):
            if name == "headers":
                start, end = at + TABLE_SIZE.size, table_end(data, at)
                check_table(data, start, end, free)
                if data.find(b"CC", start, end) >= 0:
                    has_cc = not COPIES.isdisjoint(decode_table(data, start, end))
            elif name == "delivery_mode":
                end = at + 1
                mode = data[at]
            elif name == "priority":
                end = at + 1
                priority = data[at]
                if not priority:
                    flags &= ~_PRIORITY
            elif name == "timestamp":
                end = at + TIMESTAMP.size
                free += (at, end)
            else:
                end = at + 1 + data[at]
                if name != "reply_to":
                    free += (at + 1, end)
                    if name == "expiration":
                        expiration = (at + 1, end)
                elif data[at : at + 1 + len(_DIRECT)] != _DIRECT:
                    flags &= ~_REPLY_TO
                    if data[at] != len(DIRECT_REPLY_TO):
                        free += (at + 1, end)
            at = end
    except (IndexError, error):
        raise malformed(data) from None
    if at != len(data):
        raise malformed(data)
    return _Findings(flags, mode, has_cc, priority, expiration, free)
