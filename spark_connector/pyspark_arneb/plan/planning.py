"""What a read covers, fixed on the driver.

The rule: all ends are of one instant; what is committed later does not exist for this read.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from pyspark_arneb.log.block_source import BlockSource
from pyspark_arneb.log.topics import TopicSelection, short_name
from pyspark_arneb.options import OptionError, ReadOptions
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
    """The selected topics among those that the source has.

    Raises :class:`OptionError` when a topic that was named is not there.
    """
    present = source.topics()
    chosen, missing = selection.choose(present)
    if missing:
        raise OptionError("topic", f"no topic {missing[0]}; {_known(present)}")
    return chosen


def _known(present: Collection[str]) -> str:
    names = sorted(present)
    if not names:
        return "the log has no topics"
    more = len(names) - NAMES_SHOWN_MAX
    shown = ", ".join(map(short_name, names[:NAMES_SHOWN_MAX]))
    return f"there are {shown}" + (f" and {more} more" if more > 0 else "")
