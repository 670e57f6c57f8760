"""The names of topics in SQL: which topics a query means, and what to suggest if it means none.

The rule: a topic is a table by its short name, which SQL does not distinguish from names that
differ only in case; only topics (and what DuckDB itself can read) are tables.
"""

import re
from collections.abc import Collection, Iterator
from typing import Final

from pyspark_arneb.log.topics import short_name
from pyspark_arneb.plan.planning import what_there_is
from pyspark_arneb.target import LakeError

_MISSING: Final = re.compile(r'Table with name (?:"(?P<quoted>.+?)"|(?P<plain>.+?)) does not exist')
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""A name that SQL accepts without quotes."""


def quoted(name: str) -> str:
    """Return the name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def topics_in(sql: str, topics: Collection[str]) -> Iterator[str]:
    """Yield those of the full names ``topics`` that occur in a query, and perhaps some more.

    Raises :class:`.LakeError` where names differ only in case.
    """
    alike: dict[str, list[str]] = {}
    for topic in sorted(topics):
        if _stands_in(sql, short_name(topic), re.IGNORECASE):
            alike.setdefault(short_name(topic).lower(), []).append(topic)
    for found in alike.values():
        meant = [each for each in found if _stands_in(sql, short_name(each))]
        if len(found) > 1 and len(meant) != 1:
            names = " and ".join(map(short_name, found))
            raise LakeError(
                f"{names} differ in case only, which SQL ignores: write the exact name of one"
            )
        yield from meant if len(found) > 1 else found


def advice(sql: str, error: str, topics: Collection[str]) -> str:
    """Return what to add to DuckDB's ``error``: the topic that was meant, or how it is written. May
    be empty."""
    missing = _MISSING.search(error)
    if missing is not None:
        name = missing["quoted"] or missing["plain"]
        if name not in map(short_name, topics):
            return what_there_is(topics, name)
    for topic in sorted(topics, key=len, reverse=True):
        name = short_name(topic)
        written = quoted(name)
        if not _PLAIN.fullmatch(name) and _stands_in(sql, name) and written not in sql:
            return f"the topic's name is to be in double quotes: {written}"
    return ""


def _stands_in(sql: str, name: str, flags: "int | re.RegexFlag" = 0) -> bool:
    """Return whether the name occurs, not as part of a longer word."""
    pattern = re.escape(quoted(name)[1:-1])
    return re.search(rf"(?<!\w){pattern}(?!\w)", sql, flags) is not None
