"""Cursors: durable subscriptions that another process moves, most of them under a lease.

The rule: a lease is on disk before its subscription, and removed after it; so a crash in between
leaves no subscription made here without an end. A request for several topics is checked for all of
them before anything is done for one.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import trio

from arneb.data.errors import DataError, bad_request
from arneb.data.leases import PREFIX, Lease, key_of, restored
from arneb_core.api.core import Core, Unit
from arneb_core.api.entries.entry import read_header
from arneb_core.api.entries.position import Position, before, render
from arneb_core.api.errors import CoreError, NotAllowed, SubscriptionNotFound
from arneb_core.api.process.name_locks import NameLocks
from arneb_core.api.subscriptions.subscription import InitialPosition, Subscription
from arneb_core.api.topics.topic import Topic

CHECK_INTERVAL_S: Final = 1.0
"""The time between two checks; a lease is removed at most this long after its end."""

LEASES_MAX: Final = 20_000
"""The most leases. Each takes half a KiB of memory, and a check every second."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder in a request: its subscription, owner and lease."""

    subscription: str
    owner: str
    lease_s: int | None = None


Start = InitialPosition | Position


class Cursors:
    """The cursors opened by the data API."""

    def __init__(self, core: Core, now_ms: Callable[[], int]) -> None:
        self._core = core
        self._now_ms = now_ms
        self._leases: dict[str, Lease] = {}
        self._ages: dict[Subscription, tuple[Position, int]] = {}
        """The first unacknowledged entry and its publish time, as last seen."""
        self._locks = NameLocks()
        """Locks by subscription name."""
        self._topics_went = True
        """Whether leases of deleted topics may be left."""
        core.watch_topics(self._topic_changed)
        for key, value in core.metadata(PREFIX).items():
            self._leases[key] = restored(key, value, now_ms())

    def __repr__(self) -> str:
        return f"<Cursors, {len(self._leases)} leases>"

    async def open(
        self, holder: Holder, topics: Mapping[Topic, Start], *, expect: bool
    ) -> dict[str, Any]:
        """Open a cursor on each of ``topics``; with ``expect``, all must exist already."""
        async with self._locks.holding(holder.subscription):
            made: set[Topic] = set()
            for topic in topics:
                if not topic.durable:
                    raise DataError(409, "not_allowed", f"{topic.name} is not stored")
                await self._end_if_due(topic, holder)
                if holder.subscription in topic.subscriptions:
                    self._expect_ours(topic, holder)
                elif expect:
                    raise gone(topic, holder.subscription)
                else:
                    made.add(topic)
            if len(self._leases) + len(made) > LEASES_MAX:
                raise DataError(503, "busy", f"expected at most {LEASES_MAX} cursors")
            for topic in made:
                self._leases[key_of(topic.id, holder.subscription)] = Lease(
                    topic.id, holder.subscription, holder.owner, holder.lease_s
                )
            for topic in topics:
                lease = self._leases.get(key_of(topic.id, holder.subscription))
                if lease is not None and lease.lease_s != holder.lease_s:
                    lease.change(holder.lease_s)
            self._renew(topics, holder)
            try:
                await self._store(topics, holder)
                for topic in made:
                    initial = topics[topic]
                    if isinstance(initial, InitialPosition):
                        await topic.subscribe(holder.subscription, initial=initial)
                    else:
                        await topic.subscribe(holder.subscription, start=initial)
            finally:
                for topic in made:  # drop the leases of subscriptions that were not made
                    if holder.subscription not in topic.subscriptions:
                        self._leases.pop(key_of(topic.id, holder.subscription), None)
            return await self._documents(topics, holder, made)

    async def renew(self, holder: Holder, topics: Mapping[Topic, Position | None]) -> Any:
        """Renew the leases, and acknowledge everything before the given positions."""
        async with self._locks.holding(holder.subscription):
            for topic, position in topics.items():
                if holder.subscription not in topic.subscriptions:
                    raise gone(topic, holder.subscription)
                self._expect_ours(topic, holder)
                if position is not None and position > topic.next_append:
                    raise bad_request(
                        f"expected a place in {topic.name} up to {render(topic.next_append)}, "
                        f"got {render(position)}"
                    )
            self._renew(topics, holder)
            await self._store(topics, holder)
            for topic, position in topics.items():
                subscription = topic.subscriptions[holder.subscription]
                if position is not None and before(position) > subscription.mark_delete:
                    await subscription.skip_through(before(position))
            return await self._documents(topics, holder, set())

    async def release(self, holder: Holder, topics: Sequence[Topic]) -> None:
        """Remove the cursors that exist."""
        async with self._locks.holding(holder.subscription):
            for topic in topics:
                self._expect_ours(topic, holder)
            for topic in topics:
                await self._remove(topic, holder.subscription)

    def listed(self, topic: Topic) -> dict[str, Any]:
        """Return who holds the subscriptions of a topic."""
        found = {}
        for name in topic.subscriptions:
            lease = self._leases.get(key_of(topic.id, name))
            owner = None if lease is None else lease.owner
            until = None if lease is None else lease.until_ms or None
            found[name] = {"owner": owner, "lease_until_ms": until}
        return found

    async def run(self) -> NoReturn:
        """Remove cursors whose lease has ended, for ever."""
        while True:
            await self.sweep()
            await trio.sleep(CHECK_INTERVAL_S)

    async def sweep(self) -> None:
        """Remove the cursors whose lease has ended, and the leases of deleted topics."""
        now_ms = self._now_ms()
        topics_went, self._topics_went = self._topics_went, False
        due = [each for each in self._leases.values() if topics_went or each.has_ended(now_ms)]
        if not due:
            return
        numbers = {each.id: each for each in self._core.topics.values()}
        for lease in due:
            topic = numbers.get(lease.topic_id)
            if topic is not None and not lease.has_ended(now_ms):
                continue
            async with self._locks.holding(lease.subscription):
                if self._leases.get(lease.key) is not lease:
                    continue
                try:
                    if topic is None:
                        await self._forget(lease.key)
                    elif lease.has_ended(self._now_ms()):
                        logger.warning(
                            "the lease of %s on cursor %s of %s has ended: it is removed",
                            lease.owner, lease.subscription, topic.name,
                        )  # fmt: skip
                        await self._remove(topic, lease.subscription)
                except CoreError as error:  # the next sweep tries again
                    self._topics_went = True
                    logger.warning("cannot remove cursor %s: %s", lease.subscription, error)

    def _topic_changed(self, name: str, came: bool) -> None:
        self._topics_went = self._topics_went or not came

    # Internal; all of it under the subscription's lock

    def _expect_ours(self, topic: Topic, holder: Holder) -> None:
        lease = self._leases.get(key_of(topic.id, holder.subscription))
        if lease is not None and lease.owner != holder.owner:
            raise DataError(
                409, "lease_held",
                f"cursor {holder.subscription} of {topic.name} is held by {lease.owner!r:.200}",
            )  # fmt: skip

    async def _end_if_due(self, topic: Topic, holder: Holder) -> None:
        """Remove an ended cursor before another owner opens it, who must not inherit it."""
        lease = self._leases.get(key_of(topic.id, holder.subscription))
        if lease is None:
            return
        if holder.subscription not in topic.subscriptions:
            del self._leases[lease.key]  # the subscription was removed through another API
        elif lease.has_ended(self._now_ms()) and lease.owner != holder.owner:
            await self._remove(topic, holder.subscription)

    def _renew(self, topics: Mapping[Topic, object], holder: Holder) -> None:
        for topic in topics:
            lease = self._leases.get(key_of(topic.id, holder.subscription))
            if lease is not None:
                lease.renew(self._now_ms())

    async def _store(self, topics: Mapping[Topic, object], holder: Holder) -> None:
        """Write the renewed leases that have to be on disk."""
        keys = (key_of(topic.id, holder.subscription) for topic in topics)
        found = [self._leases[key] for key in keys if key in self._leases]
        written = [(each, each.until_ms) for each in found if each.is_unstored]
        if not written:
            return
        await self._core.committed(Unit(metadata=[(each.key, each.pack()) for each, _ in written]))
        for lease, until_ms in written:
            lease.stored_ms = until_ms

    async def _remove(self, topic: Topic, subscription: str) -> None:
        found = topic.subscriptions.get(subscription)
        if found is not None:
            self._ages.pop(found, None)
            with suppress(SubscriptionNotFound, NotAllowed):
                await topic.unsubscribe(subscription, force=True)
        await self._forget(key_of(topic.id, subscription))

    async def _forget(self, key: str) -> None:
        if key in self._leases:
            await self._core.committed(Unit(metadata=[(key, None)]))
            self._leases.pop(key, None)

    async def _documents(
        self, topics: Mapping[Topic, object], holder: Holder, made: set[Topic]
    ) -> dict[str, Any]:
        return {topic.name: await self._document(topic, holder, made) for topic in topics}

    async def _document(self, topic: Topic, holder: Holder, made: set[Topic]) -> dict[str, Any]:
        subscription = topic.subscriptions.get(holder.subscription)
        if subscription is None:
            raise gone(topic, holder.subscription)
        first = next(iter(subscription.unacknowledged(1)), None)
        lease = self._leases.get(key_of(topic.id, holder.subscription))
        return {
            "id": topic.id,
            "created": topic in made,
            "next": render(topic.next_append if first is None else first),
            "owner": None if lease is None else lease.owner,
            "lease_until_ms": None if lease is None else lease.until_ms or None,
            "backlog": {
                "messages": subscription.ready_messages,
                "entries": subscription.statistics().backlog_entries,
                "bytes": subscription.backlog_bytes,
                "seconds": 0 if first is None else await self._age_s(topic, subscription, first),
            },
        }

    async def _age_s(self, topic: Topic, subscription: Subscription, first: Position) -> float:
        known = self._ages.get(subscription)
        if known is None or known[0] != first:
            entry = await topic.entry_at(first)
            if entry is None:
                return 0.0  # trimmed meanwhile
            known = self._ages[subscription] = first, read_header(entry).publish_time_ms
        return max(0, self._now_ms() - known[1]) / 1000


def gone(topic: Topic, subscription: str) -> DataError:
    """Return the error for a cursor that is gone."""
    reason = f"cursor {subscription} of {topic.name} is gone: its lease ended, or it was removed"
    return DataError(410, "cursor_gone", reason)
