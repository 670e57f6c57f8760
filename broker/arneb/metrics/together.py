"""Together: the metrics of several brokers in one process, as one page.

The rule: each series appears once: a broker's own series get the label ``shard``; series of the
node, and those that have the label already, are written once. Prometheus wants all series of a
family in one place, below its head.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

OF_THE_NODE: Final = re.compile(r"(arneb_cluster_|process_|python_|erlang_|rabbitmq_process_)")
"""Families of the process, or of all of its shards, which are the same for every broker here."""

_SERIES: Final = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(\{)?")


class _Family:
    """One family, with the head that was read first."""

    def __init__(self) -> None:
        self.head: dict[str, None] = {}
        self.series: list[str] = []


def together(pages: Sequence[tuple[str, str]]) -> str:
    """Join ``pages`` in Prometheus' text format, given with their shards."""
    families: dict[str, _Family] = {}
    for index, (shard, text) in enumerate(pages):
        label = f'shard="{shard}"'  # names of shards need no escapes
        name = ""
        for line in text.splitlines():
            if line.startswith(("# HELP ", "# TYPE ")):
                name = line.split(" ", 3)[2]
                families.setdefault(name, _Family()).head[line] = None
                continue
            found = _SERIES.match(line)
            if found is None:
                continue  # empty, or a comment
            if not name or not line.startswith(name):
                name = found[1]
            family = families.setdefault(name, _Family())
            if not OF_THE_NODE.match(name):
                family.series.append(_labelled(line, found, label))
            elif index == 0:
                family.series.append(line)
    return "".join(_lines(families.values()))


def _labelled(line: str, found: re.Match[str], label: str) -> str:
    end = found.end()
    if found[2]:
        separator = "" if line[end] == "}" else ","
        return f"{line[:end]}{label}{separator}{line[end:]}"
    return f"{line[:end]}{{{label}}}{line[end:]}"


def _lines(families: Iterable[_Family]) -> Iterable[str]:
    for each in families:
        for line in (*_heads(each.head), *each.series):
            yield f"{line}\n"


def _heads(lines: Iterable[str]) -> Iterable[str]:
    """Return one line of each kind: the texts may differ between versions."""
    kinds = {line[:6]: line for line in reversed(list(lines))}
    return reversed(kinds.values())
