"""What a read covers, fixed on the driver.

The rule: all ends are of one instant; entries that are committed later do not exist for this read.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from pyspark_arneb.log.block_source import BlockSource
from pyspark_arneb.log.topics import (
    TopicSelection,
    is_internal,
    partition_index,
    partitions_of,
    queues_of,
    short_name,
    without_partition,
)
from pyspark_arneb.option_table import OptionError
from pyspark_arneb.options import ReadOptions
from pyspark_arneb.plan.ranges import Loss, Span, select

NAMES_SHOWN_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Plan:
    """What a read covers, as of one instant."""

    spans: tuple[Span, ...]
    losses: tuple[Loss, ...]


def plan_read(options: ReadOptions) -> Plan:
    """Fix the ends of the read.

    Raises :class:`~pyspark_arneb.options.OptionError` and
    :class:`arneb_core.api.errors.StoreUnusable`.
    """
    source = options.location.open()
    spans, losses = select(source.extents(selected_topics(source, options.topics)), options)
    return Plan(tuple(spans), tuple(losses))


def selected_topics(source: BlockSource, selection: TopicSelection) -> list[str]:
    """Return the selected topics among those of the source.

    Raises :class:`OptionError` when a topic named in the options does not exist.
    """
    present = source.topics()
    chosen, missing = selection.choose(present)
    if missing:
        if selection.queue is not None:
            vhost, queue = selection.queue
            found = _shown(queues_of(vhost, present), queue) or "the log has nothing of this vhost"
            raise OptionError("queue", f"no queue {queue} in the vhost {vhost}; {found}")
        if selection.partitions:
            raise OptionError("assign", _no_partition(present, missing[0]))
        known = what_there_is(present, missing[0])
        option = "topics" if len(selection.names) > 1 else "topic"
        raise OptionError(option, f"no topic {missing[0]}; {known}")
    return chosen


def _no_partition(present: Collection[str], missing: str) -> str:
    topic, number = without_partition(missing), partition_index(missing)
    there = len(list(partitions_of(topic, present))) or int(topic in present)
    if not there:
        return f"no topic {short_name(topic)}; {what_there_is(present, topic)}"
    return f"no partition {number} of topic {short_name(topic)}, which has {there}"


def what_there_is(present: Collection[str], missing: str) -> str:
    """Suggest a topic in place of ``missing``, or list some that exist. Internal logs are not
    named."""
    names = sorted(name for name in present if not is_internal(name))
    if not names:
        return "the log has no topics"
    bases = dict.fromkeys(without_partition(name) for name in names)
    return _shown(list(map(short_name, bases)), short_name(missing))


def _shown(names: Sequence[str], missing: str) -> str:
    """Return the nearest of ``names``, or else the first of them; nothing if there are none."""
    if not names:
        return ""
    close = get_close_matches(missing, names, n=1)
    if close:
        return f"did you mean {close[0]}?"
    more = len(names) - NAMES_SHOWN_MAX
    shown = ", ".join(names[:NAMES_SHOWN_MAX])
    return f"there are {shown}" + (f" and {more} more" if more > 0 else "")
