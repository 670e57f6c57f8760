"""Queue texts: the written documents of lists, kept until they change.

The rule: of a thousand queues shown each second only a few change. Everything a text shows besides
counters is compared each time, and a queue whose rates are not all 0 is rewritten.
"""

from typing import Any, Final

from arneb.http.management.figures.counters import numbers_of
from arneb.http.management.figures.samples import Kept
from arneb.http.management.requests.calls import Written, written
from arneb.http.management.site import Site
from arneb.http.management.topology.queue_fields import Sight, listed_document
from arneb_amqp.topology.queue_types import QueueType
from arneb_amqp.topology.queues.queue import Queue

KEPT_BYTES: Final = 300
"""Memory kept for a queue besides its text."""


def listed_text(site: Site, queue: Queue) -> Written:
    """Return one queue's document, without samples over a range."""
    if queue.owner is not None or queue.options.type is QueueType.STREAM:
        return written(listed_document(site, queue))  # these show other objects too
    sight = Sight(site, queue)
    numbers, seen = numbers_of(queue), _seen(sight)
    kept = site.rates.unchanged(sight.key, numbers)
    if kept is not None and kept.seen == seen:
        text: Written = kept.made
        return text
    made = written(listed_document(site, queue))
    site.rates.keep(sight.key, numbers, Kept(seen, made, KEPT_BYTES + len(made.text)))
    return made


def _seen(sight: Sight) -> tuple[Any, ...]:
    """Return everything shown of a queue that may change, besides its counters."""
    queue = sight.queue
    return (
        queue, queue.applied, queue.options, queue.arguments, queue.auto_delete, sight.consumers,
        sight.capacity, *sight.sizes,
    )  # fmt: skip
