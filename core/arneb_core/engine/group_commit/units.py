"""Units: what a frontend wants committed as one, made into a request for the committer.

The rule: a unit takes effect whole or not at all. Its parts that are kept only in memory, entries
and acknowledgements alike, take effect once the rest is on disk: nothing could take them back.
Appends to the same topics meanwhile go after it, so that publishers' messages keep their order.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain

from arneb_core.api.core import Unit
from arneb_core.api.entries.position import Position
from arneb_core.engine.group_commit.request import Append, Finish, Request
from arneb_core.engine.subscriptions.consumer import LogConsumer
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.log.memory_log import MemoryLog
from arneb_core.store.format.schema import Table, frontend_key

MetadataChanged = Callable[[Sequence[tuple[str, bytes | None]]], None]


def request_of(unit: Unit, finish: Finish, metadata_changed: MetadataChanged) -> Request:
    """Return ``unit`` as a request."""
    request = Request(finish, passes_over_gone=unit.passes_over_gone)
    appends: list[Append] = []
    in_memory: list[LogTopic] = []
    acks: list[tuple[LogConsumer, Sequence[Position], Mapping[Position, int]]] = []
    afterwards: list[Callable[[], object]] = []
    in_memory_bytes = size = 0
    sized: list[bytes] = []
    for topic, entries in unit.appends:
        assert isinstance(topic, LogTopic), "topics come from this engine"
        if entries is not sized:  # an append to many topics shares one list
            sized, size = entries, sum(map(len, entries))
        messages = None if unit.has_batches else len(entries)
        if isinstance(topic.log, MemoryLog):
            in_memory.append(topic)
            afterwards.append(partial(topic.append_now, entries, messages))
            in_memory_bytes += size
        else:
            appends.append((topic, entries, messages))
            request.entries += len(entries)
            request.size += size
    request.appends, request.in_memory = appends, in_memory
    request.share()
    request.size += in_memory_bytes
    for run in unit.runs:
        assert isinstance(run.topic, LogTopic), "topics come from this engine"
        assert run.topic.durable, "what is kept in memory is appended otherwise"
        if run.first is None:
            request.entries += len(run.entries)
            request.size += run.bytes
    request.runs = unit.runs
    for consumer, positions in unit.acks:
        assert isinstance(consumer, LogConsumer), "consumers come from this engine"
        if consumer.subscription.durable:
            acks.append((consumer, positions, {}))
        else:
            afterwards.append(partial(consumer.acknowledge, positions))
    for consumer, masks in unit.parts:
        assert isinstance(consumer, LogConsumer), "consumers come from this engine"
        if consumer.subscription.durable:
            acks.append((consumer, [], masks))
        else:
            afterwards.append(partial(consumer.acknowledge_parts, masks))
    request.acks = acks
    if unit.metadata:
        request.puts = metadata_puts(unit.metadata)
        afterwards.append(partial(metadata_changed, list(unit.metadata)))
    if afterwards:
        request.on_commit = partial(_in_order, afterwards)
    return request


def metadata_puts(
    metadata: Sequence[tuple[str, bytes | None]],
) -> list[tuple[Table, bytes, bytes | None]]:
    """Return the rows of frontend metadata."""
    return [(Table.CATALOG, frontend_key(key), value) for key, value in metadata]


def is_refused(unit: Unit) -> bool:
    """Whether ``unit`` appends to a topic that takes nothing in any more."""
    for topic in chain((topic for topic, _ in unit.appends), (run.topic for run in unit.runs)):
        if topic.fenced:
            assert isinstance(topic, LogTopic), "topics come from this engine"
            if topic.refuses(unit.passes_over_gone):
                return True
    return False


def _in_order(steps: list[Callable[[], object]]) -> None:
    for step in steps:
        step()
