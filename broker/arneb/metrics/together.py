"""Together: the metrics of several brokers in one process, as one page.

The rule: a series is there once, and says whose it is: what a broker says of itself has the label
``shard``, and what is the node's, or has that label already, stands there once. Prometheus wants
all series of a family in one place, below its head.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

OF_THE_NODE: Final = re.compile(r"(arneb_cluster_|process_|python_|erlang_|rabbitmq_process_)")
"""Families of the process, or of all of its shards: every broker here says the same of them."""

_SERIES: Final = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(\{)?")


class _Family:
    """One family, as it was met first."""

    def __init__(self) -> None:
        self.head: dict[str, None] = {}
        self.series: list[str] = []


def together(pages: Sequence[tuple[str, str]]) -> str:
    """``pages``: in Prometheus' text format, by their shards."""
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
                continue  # empty, or a remark
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
    """One of each kind: versions may say it in other words."""
    kinds = {line[:6]: line for line in reversed(list(lines))}
    return reversed(kinds.values())
