"""The names of topics in SQL: which topics a query means, and what to say where it means none.

The rule: a topic is a table of its short name, which SQL tells from no other that differs in case
only; nothing but topics (and what DuckDB itself can read) is a table.
"""

import re
from collections.abc import Collection, Iterator
from typing import Final

from pyspark_arneb.log.topics import short_name
from pyspark_arneb.plan.planning import what_there_is
from pyspark_arneb.target import LakeError

_MISSING: Final = re.compile(r'Table with name (?:"(?P<quoted>.+?)"|(?P<plain>.+?)) does not exist')
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""A name that SQL takes without quotes."""


def quoted(name: str) -> str:
    """The name as SQL has any name."""
    return '"' + name.replace('"', '""') + '"'


def topics_in(sql: str, topics: Collection[str]) -> Iterator[str]:
    """Those among the full names ``topics`` whose names stand in a query, and perhaps some more.

    Raises :class:`.LakeError` where names differ in case only.
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
                f"{names} differ in case only, which SQL does not tell apart: ask for one, "
                "written as it is"
            )
        yield from meant if len(found) > 1 else found


def advice(sql: str, error: str, topics: Collection[str]) -> str:
    """What to add to DuckDB's ``error``: the topic that was meant, or how it is written. It may be
    nothing."""
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
    """Whether the name is there, not as a part of a longer word."""
    pattern = re.escape(quoted(name)[1:-1])
    return re.search(rf"(?<!\w){pattern}(?!\w)", sql, flags) is not None
