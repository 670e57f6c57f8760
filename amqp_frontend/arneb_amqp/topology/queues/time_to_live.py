"""Time to live: how long a queue's messages live, and those that were there before it changed.

The rule: a message keeps the time that held when it was published, as in RabbitMQ, which writes it
to each message. Here the changes are kept instead, with the queue, so a message costs nothing.
"""

from typing import Final

from arneb_core.api.expiry import ChangedTtl, Ttl

CHANGES_MAX: Final = 32
"""Kept of one queue. With more the two oldest become one, of which the longer time counts, so that
nothing goes earlier than it should."""


def current(ttl: Ttl) -> int | None:
    """That of what is published now."""
    return ttl.now_ms if isinstance(ttl, ChangedTtl) else ttl


def changed(ttl: Ttl, wanted_ms: int | None, at_ms: int, *, is_empty: bool) -> Ttl:
    """``wanted_ms`` takes the place of ``ttl`` for what is published from ``at_ms`` on.
    ``is_empty``: nothing was published before that is still there."""
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
    """What is stored of it; nothing if it is what was declared, and always was."""
    if isinstance(ttl, ChangedTtl):
        return ttl
    return None if ttl == declared_ms else ChangedTtl(ttl, ())


def as_held(stored: ChangedTtl | None, declared_ms: int | None) -> Ttl:
    """The inverse of :func:`as_stored`."""
    if stored is None:
        return declared_ms
    return stored if stored.before else stored.now_ms
