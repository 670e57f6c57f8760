"""Compares a history with what the broker shows after a restart, and names each anomaly.

Pure: sets and lists in, sentences out. Each function checks one promise.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise

from tests.crash.history import AckBook, History, Identity, Item, Recovery, Seen, T

from pyspark_arneb.pipeline.checks.broker_history import check_history, read_batch

FANOUT = "fan"
"""The prefix of publishers that publish to both topics at once."""

SHOWN_MAX = 5

Log = list[tuple[Item, Identity]]


def judge(history: History, recovery: Recovery) -> list[str]:
    """Every broken promise, one line each; empty if all are kept."""
    identities = [identity for _, identity in recovery.log]
    items = [item for item, _ in recovery.log]
    return [
        *_log(history, recovery.log),
        *_kept_prefix(history.log, recovery.log),
        *_whole_units(recovery),
        *judge_acks("amqp", history.amqp, identities, [seen.identity for seen in recovery.amqp]),
        *judge_acks("pulsar", history.pulsar, items, recovery.pulsar),
        *_deliveries(history.seen, history.ever_seen, recovery.log),
        *_phantoms(history, recovery.log),
        *_redelivered(history, recovery),
        *(f"history: {each}" for each in check_history(map(read_batch, recovery.histories))),
        *some("refused", history.refused),
    ]


def accept(history: History, recovery: Recovery) -> None:
    """Use what was recovered as the state from which to continue."""
    history.log = recovery.log
    history.amqp.recovered([i for _, i in recovery.log], [s.identity for s in recovery.amqp])
    history.pulsar.recovered([item for item, _ in recovery.log], recovery.pulsar)
    history.ever_seen.update(seen.identity for seen in [*history.seen, *recovery.amqp])
    history.seen = []


def some(name: str, what: Collection[object]) -> Iterator[str]:
    """One line about ``what``, if it is not empty."""
    if what:
        shown = ", ".join(str(item) for item in list(what)[:SHOWN_MAX])
        yield f"{name}: {len(what)} ({shown}{', …' if len(what) > SHOWN_MAX else ''})"


def _log(history: History, log: Log) -> Iterator[str]:
    """Every confirmed message is there once, at its place, in its publisher's order."""
    places = {identity: item for item, identity in log}
    yield from some("lost", [i for i in history.confirmed if i not in places])
    moved = [
        (identity, item, places[identity])
        for identity, item in history.confirmed.items()
        if item is not None and identity in places and places[identity] != item
    ]
    yield from some("moved", moved)
    counts = Counter(identity for _, identity in log)
    yield from some("duplicated", [identity for identity, count in counts.items() if count > 1])
    yield from some(
        "invented", [i for i in counts if not 1 <= i[1] <= history.published.get(i[0], 0)]
    )
    last: dict[str, int] = {}
    disorder = []
    for _, (publisher, number) in log:
        if number < last.get(publisher, 0):
            disorder.append((publisher, number, last[publisher]))
        last[publisher] = number
    yield from some("disorder", disorder)
    items = [item for item, _ in log]
    yield from some("places not rising", [b for a, b in pairwise(items) if a >= b])
    gaps = [b for a, b in pairwise(items) if a[0] == b[0] and b[1] > a[1] + 1]
    yield from some("gaps in a ledger", gaps)


def _kept_prefix(before: Log, now: Log) -> Iterator[str]:
    """What was in the log stays in it, unchanged."""
    if now[: len(before)] != before:
        changed = [old for old, new in zip(before, now, strict=False) if old != new]
        yield from some("rewritten", changed or before[len(now) :])


def _whole_units(recovery: Recovery) -> Iterator[str]:
    """A publish to two queues is in both or in none, in the same order."""
    first = [identity for _, identity in recovery.log if identity[0].startswith(FANOUT)]
    if first != recovery.copied:
        torn = set(first) ^ set(recovery.copied)
        yield from some("torn publish", torn or {"same messages in another order"})


def judge_acks(name: str, book: AckBook[T], log: list[T], returned: list[T]) -> Iterator[str]:
    """Durably acked messages are gone; unacked ones come back, in log order, once; and nothing else
    does."""
    order = {item: index for index, item in enumerate(log)}
    back = set(returned)
    accounted = book.sent | back
    yield from some(f"{name}: acked and came back", book.durable & back)
    yield from some(
        f"{name}: never acked and did not come back",
        [item for item in log if item not in accounted],
    )
    yield from some(f"{name}: came back and is not in the log", back - order.keys())
    yield from some(f"{name}: came back twice", [i for i, n in Counter(returned).items() if n > 1])
    ranks = [order[item] for item in returned if item in order]
    yield from some(
        f"{name}: came back out of order",
        [log[b] for a, b in pairwise(ranks) if b < a],
    )


def _deliveries(seen: Iterable[Seen], before: Collection[Identity], log: Log) -> Iterator[str]:
    """A message that somebody may have seen is flagged as redelivered; new ones come in log
    order."""
    order = {identity: index for index, (_, identity) in enumerate(log)}
    known = set(before)
    last: dict[str, int] = {}
    unflagged, disorder = [], []
    for delivery in seen:
        if not delivery.redelivered:
            if delivery.identity in known:
                unflagged.append(delivery)
            rank = order.get(delivery.identity, -1)
            if rank < last.get(delivery.consumer, -1):
                disorder.append(delivery)
            last[delivery.consumer] = rank
        known.add(delivery.identity)
    yield from some("delivered again without the redelivered flag", unflagged)
    yield from some("new messages delivered out of order", disorder)


def _phantoms(history: History, log: Log) -> Iterator[str]:
    """Everything that a consumer has seen was on disk before."""
    identities = {identity for _, identity in log}
    seen = {delivery.identity for delivery in history.seen} | history.ever_seen
    yield from some("seen over AMQP and taken back by the crash", seen - identities)
    items = {item for item, _ in log}
    yield from some("seen over Pulsar and taken back by the crash", history.entries_seen - items)


def _redelivered(history: History, recovery: Recovery) -> Iterator[str]:
    if not recovery.after_crash:
        return
    seen = {delivery.identity for delivery in history.seen} | history.ever_seen
    unflagged = [
        delivery
        for delivery in recovery.amqp
        if delivery.identity in seen and not delivery.redelivered
    ]
    yield from some("came back without the redelivered flag", unflagged)
