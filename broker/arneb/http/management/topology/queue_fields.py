"""The fields of a queue's document, and how each is read.

The rule: only requested fields are read: a list of very many queues is sorted by one field and
narrowed to some without reading the others.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from arneb.http.management.clients.channels import peer_details
from arneb.http.management.figures.counters import (
    LENGTHS,
    OF_ONE_QUEUE,
    OF_QUEUES,
    Counters,
    message_stats,
    messages,
    of_queue,
    ready,
)
from arneb.http.management.figures.presence import NO_COLLECTIONS, NO_REDUCTIONS, time_to_json
from arneb.http.management.figures.rates import Range
from arneb.http.management.lists.lists import descend
from arneb.http.management.lists.ordering import Figure
from arneb.http.management.requests.calls import Document
from arneb.http.management.site import Site
from arneb_amqp.topology.names import SUBSCRIPTION
from arneb_amqp.topology.queue_types import QueueType
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.wire.json_fields import table_to_json, text_to_json

NO_RANGES: Final[Mapping[str, Range]] = MappingProxyType({})

ABSENT: Final = object()
"""The value of a field that this queue does not have now."""


class Sight:
    """Reads a queue's fields; shared parts are computed once."""

    __slots__ = ("_counters", "_rates", "_sizes", "queue", "ranges", "site")

    def __init__(self, site: Site, queue: Queue, ranges: Mapping[str, Range] = NO_RANGES) -> None:
        self.site = site
        self.queue = queue
        self.ranges = ranges
        self._counters: Counters | None = None
        self._rates: Mapping[str, Mapping[str, Any]] | None = None
        self._sizes: tuple[int, int] | None = None

    def __repr__(self) -> str:
        return f"<Sight of {self.queue!r}>"

    @property
    def counters(self) -> Counters:
        """The queue's counters."""
        if self._counters is None:
            self._counters = of_queue(self.queue)
        return self._counters

    @property
    def rates(self) -> Mapping[str, Mapping[str, Any]]:
        """``rate`` of each counter, with samples over the requested ranges. Reading it starts
        sampling."""
        if self._rates is None:
            read = partial(_read, self.site, self.queue)
            self._rates = self.site.rates.details(self.key, self.counters, read, self.ranges)
        return self._rates

    @property
    def key(self) -> tuple[str, int]:
        """The key of the queue's rates."""
        return "queue", self.queue.topic.id

    @property
    def sizes(self) -> tuple[int, int]:
        """As :func:`sizes_of`."""
        if self._sizes is None:
            self._sizes = sizes_of(self.queue)
        return self._sizes

    @property
    def consumers(self) -> int:
        """The number of consumers."""
        return consumers_of(self.queue)

    @property
    def capacity(self) -> float:
        """1 if a message that arrived now would go to a consumer at once, else 0."""
        return capacity_of(self.queue)


def _read(site: Site, queue: Queue) -> Counters | None:
    vhost = site.topology.vhost(queue.vhost)
    there = vhost is not None and vhost.queues.has(queue) and not queue.topic.fenced
    return of_queue(queue) if there else None


def consumers_of(queue: Queue) -> int:
    """Return the number of consumers."""
    return queue.consumer_count if SUBSCRIPTION in queue.topic.subscriptions else 0


def capacity_of(queue: Queue) -> float:
    """Return 1 if a message that arrived now would go to a consumer at once, else 0."""
    if not consumers_of(queue):
        return 0
    served = not ready(queue) or (
        queue.type is not QueueType.STREAM and queue.subscription.room > 0
    )
    return 1.0 if served else 0


def sizes_of(queue: Queue) -> tuple[int, int]:
    """Return the bytes of all messages and of the ready ones, with the log's overhead."""
    subscription = queue.topic.subscriptions.get(SUBSCRIPTION)
    if subscription is None or queue.options.type is QueueType.STREAM:
        return queue.topic.stored_bytes, queue.topic.stored_bytes
    everything = subscription.backlog_bytes
    return (everything, min(subscription.ready_bytes, everything)) if everything else (0, 0)


def _message_stats(sight: Sight) -> Any:
    counters = sight.counters
    if not any(counters[name] for name in _PASSED):
        return ABSENT
    return message_stats(counters, sight.rates, OF_QUEUES)["message_stats"]


def _idle_since(sight: Sight) -> Any:
    since_ms = sight.site.rates.idle_since_ms(sight.key)
    return ABSENT if since_ms is None else time_to_json(since_ms)


def _owner(sight: Sight) -> Any:
    owner = sight.queue.owner
    found = None if owner is None else sight.site.roster.connection(owner)
    return ABSENT if found is None else peer_details(found)


def _exclusive_consumer(sight: Sight) -> str | None:
    queue = sight.queue
    if not queue.exclusively_consumed or not queue.is_complete:
        return None
    names = [each.name for each in queue.subscription.consumers if each not in queue.unseen]
    return text_to_json(names[0]) if names else None


def _active_consumer(sight: Sight) -> str | None:
    queue = sight.queue
    single = queue.options.single_active_consumer and queue.is_complete
    return queue.subscription.active_name if single else None


Read = Callable[[Sight], Any]


def _counted(name: str) -> Read:
    return lambda sight: sight.counters[name]


def _always(value: Any) -> Read:
    return lambda _: value


def _rate(name: str) -> Read:
    return lambda sight: sight.rates[name]


def _if_durable(read: Read, *, durable: bool) -> Read:
    """Read a field if the queue's durability is this, else 0."""
    return lambda sight: read(sight) if sight.queue.durable is durable else 0


def _all_bytes(sight: Sight) -> int:
    return sight.sizes[0]


def _members(sight: Sight) -> list[str]:
    return [sight.site.node]


def _readers(sight: Sight) -> dict[str, int]:
    subscriptions = sight.queue.topic.subscriptions.values()
    return {sight.site.node: sum(len(each.consumers) for each in subscriptions)}


_COMMON: Final[dict[str, Read]] = {
    "name": lambda sight: text_to_json(sight.queue.name),
    "vhost": lambda sight: sight.queue.vhost,
    "type": lambda sight: sight.queue.type.value,
    "durable": lambda sight: sight.queue.durable,
    "auto_delete": lambda sight: sight.queue.auto_delete,
    "exclusive": lambda sight: sight.queue.owner is not None,
    "arguments": lambda sight: table_to_json(sight.queue.arguments),
    "node": lambda sight: sight.site.node,
    "state": lambda sight: "running",
    "policy": lambda sight: sight.queue.applied.policy,
    "operator_policy": lambda sight: sight.queue.applied.operator_policy,
    "effective_policy_definition": lambda sight: dict(sight.queue.applied.definition),
    "consumers": lambda sight: sight.consumers,
    "consumer_capacity": lambda sight: sight.capacity,
    "consumer_utilisation": lambda sight: sight.capacity,
    **{name: _counted(name) for name in LENGTHS},
    **{f"{name}_details": _rate(name) for name in LENGTHS},
    "messages_persistent": _if_durable(_counted("messages"), durable=True),
    "messages_ram": _if_durable(_counted("messages"), durable=False),
    "message_bytes": _all_bytes,
    "message_bytes_ready": lambda sight: sight.sizes[1],
    "message_bytes_unacknowledged": lambda sight: sight.sizes[0] - sight.sizes[1],
    "message_bytes_persistent": _if_durable(_all_bytes, durable=True),
    "message_bytes_ram": _if_durable(_all_bytes, durable=False),
    "memory": _if_durable(_all_bytes, durable=False),
    **{name: _always(value) for name, value in NO_REDUCTIONS.items()},
    "message_stats": _message_stats,
    "owner_pid_details": _owner,
}

_CLASSIC: Final[dict[str, Read]] = {
    "messages_ready_ram": _if_durable(_counted("messages_ready"), durable=False),
    "messages_unacknowledged_ram": _if_durable(
        _counted("messages_unacknowledged"), durable=False
    ),
    "messages_paged_out": _if_durable(_counted("messages"), durable=True),
    "message_bytes_paged_out": _if_durable(_all_bytes, durable=True),
    "head_message_timestamp": lambda sight: None,
    "recoverable_slaves": lambda sight: None,
    "backing_queue_status": lambda sight: {
        "len": sight.counters["messages_ready"], "mode": "default", "version": 2,
    },
}  # fmt: skip

_REPLICATED: Final[dict[str, Read]] = {
    "leader": lambda sight: sight.site.node,
    "members": _members,
    "online": _members,
}

_OF_TYPE: Final[Mapping[QueueType, dict[str, Read]]] = {
    QueueType.CLASSIC: _COMMON | _CLASSIC,
    QueueType.QUORUM: _COMMON
    | _REPLICATED
    | {
        "messages_dlx": lambda sight: 0,
        "message_bytes_dlx": lambda sight: 0,
        "open_files": lambda sight: {sight.site.node: 0},
    },
    QueueType.STREAM: _COMMON | _REPLICATED | {"readers": _readers},
}

_DETAILS: Final[dict[str, Read]] = {
    "exclusive_consumer_tag": _exclusive_consumer,
    "single_active_consumer_tag": _active_consumer,
    "garbage_collection": lambda sight: NO_COLLECTIONS,
    "idle_since": _idle_since,
}
"""Fields that RabbitMQ omits from lists because they are empty or expensive."""

_DETAILED: Final = {kind: fields | _DETAILS for kind, fields in _OF_TYPE.items()}

_SAMPLED: Final = frozenset({"message_stats", *(f"{name}_details" for name in LENGTHS)})
"""Fields that are objects with rates."""

FIELDS: Final = frozenset(name for fields in _DETAILED.values() for name in fields)
"""All fields that queues of any type have."""


def queue_document(
    site: Site,
    queue: Queue,
    ranges: Mapping[str, Range] = NO_RANGES,
    *,
    names: Collection[str] = (),
    detailed: bool = True,
) -> Document:
    """Return one queue's document; only ``names``, if given. ``detailed`` adds the fields that
    lists omit."""
    sight = Sight(site, queue, ranges)
    fields = (_DETAILED if detailed else _OF_TYPE)[queue.type]
    if names:
        fields = {name: fields[name] for name in names if name in fields}
    document = {name: read(sight) for name, read in fields.items()}
    return {name: value for name, value in document.items() if value is not ABSENT}


def listed_document(site: Site, queue: Queue, ranges: Mapping[str, Range] = NO_RANGES) -> Document:
    """Return one queue's document as lists show it."""
    document = queue_document(site, queue, ranges, detailed=False)
    return {name: value for name, value in document.items() if value is not None}


_PASSED: Final = tuple(name for group in OF_QUEUES for name in group)
"""The counters in ``message_stats``."""

_FIGURES: Final[Mapping[str, Callable[[Queue], Any]]] = {
    "name": lambda queue: queue.name,
    "vhost": lambda queue: queue.vhost,
    "consumers": consumers_of,
    "type": lambda queue: queue.options.type.value,
    "durable": lambda queue: queue.topic.durable,
    "auto_delete": lambda queue: queue.auto_delete,
    "exclusive": lambda queue: queue.owner is not None,
    "policy": lambda queue: queue.applied.policy,
    "operator_policy": lambda queue: queue.applied.operator_policy,
    **dict.fromkeys(("consumer_capacity", "consumer_utilisation"), capacity_of),
    "message_bytes": lambda queue: sizes_of(queue)[0],
    "message_bytes_ready": lambda queue: sizes_of(queue)[1],
    "message_bytes_persistent": lambda queue: sizes_of(queue)[0] if queue.durable else 0,
    **dict.fromkeys(
        ("memory", "message_bytes_ram"),
        lambda queue: 0 if queue.durable else sizes_of(queue)[0],
    ),
    "messages_persistent": lambda queue: messages(queue) if queue.durable else 0,
    "messages_ram": lambda queue: 0 if queue.durable else messages(queue),
    "backing_queue_status.len": lambda queue: (
        ready(queue) if queue.options.type is QueueType.CLASSIC else None
    ),
    **{name: OF_ONE_QUEUE[name] for name in LENGTHS},
    **{f"message_stats.{name}": OF_ONE_QUEUE[name] for name in _PASSED},
}
"""Fields read without a :class:`Sight`."""

_RATES: Final[Mapping[str, str]] = {
    **{f"{name}_details.rate": name for name in LENGTHS},
    **{f"message_stats.{name}_details.rate": name for name in _PASSED},
}
"""The counter of each rate."""


def figure_of(site: Site, sort: str) -> Figure:
    """Return the sort key for a field or a part of one. Sorting does not start sampling of each
    queue's rates."""
    if (read := _FIGURES.get(sort)) is not None:
        return read
    if (counter := _RATES.get(sort)) is not None:
        return site.rates.growth.rate_of(counter, OF_ONE_QUEUE[counter], partial(_all_queues, site))
    first, *path = sort.split(".")
    if first not in FIELDS or first in _SAMPLED:
        return lambda _: None
    return partial(_part, site, first, path)


def _all_queues(site: Site) -> Iterator[Queue]:
    for vhost in list(site.topology.vhosts):
        yield from vhost.queues


def _part(site: Site, name: str, path: Sequence[str], queue: Queue) -> Any:
    read = _DETAILED[queue.type].get(name)
    value = ABSENT if read is None else read(Sight(site, queue))
    return None if value is ABSENT else descend(value, path)
