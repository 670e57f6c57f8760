"""Time to live: how long a queue's messages live, including those from before it changed.

The rule: a message keeps the time to live that applied when it was published, as in RabbitMQ, which
writes it into each message. Here the changes are kept with the queue, so a message costs nothing.
"""

from typing import Final

from arneb_core.api.entries.expiry import ChangedTtl, Ttl

CHANGES_MAX: Final = 32
"""Changes kept for one queue. Beyond that the two oldest are merged with the longer of their times,
so that no message expires too early."""


def current(ttl: Ttl) -> int | None:
    """Return the time to live of messages published now."""
    return ttl.now_ms if isinstance(ttl, ChangedTtl) else ttl


def changed(ttl: Ttl, wanted_ms: int | None, at_ms: int, *, is_empty: bool) -> Ttl:
    """Replace ``ttl`` by ``wanted_ms`` for messages published from ``at_ms`` on. ``is_empty``: no
    earlier message is left."""
    if is_empty:
        return wanted_ms
    if current(ttl) == wanted_ms:
        return ttl
    before = ttl.before if isinstance(ttl, ChangedTtl) else ()
    before = (*before, (at_ms, current(ttl)))
    if len(before) > CHANGES_MAX:
        (_, first_ms), (until_ms, second_ms), *rest = before
        longer_ms = None if None in (first_ms, second_ms) else max(first_ms or 0, second_ms or 0)
        before = ((until_ms, longer_ms), *rest)
    return ChangedTtl(wanted_ms, before)


def as_stored(ttl: Ttl, declared_ms: int | None) -> ChangedTtl | None:
    """Return what is stored of it; None if it is, and always was, the declared one."""
    if isinstance(ttl, ChangedTtl):
        return ttl
    return None if ttl == declared_ms else ChangedTtl(ttl, ())


def as_held(stored: ChangedTtl | None, declared_ms: int | None) -> Ttl:
    """Return the time to live from what :func:`as_stored` returned."""
    if stored is None:
        return declared_ms
    return stored if stored.before else stored.now_ms
