"""An independent reading of rows on the wire (docs/internals/data-api.md)."""

import json
from struct import unpack_from
from typing import Any

NO_PROPERTIES = (1 << 32) - 1
TEXTS = ("value", "key", "ordering_key")
NUMBERS = {"priority": ("B", 1), "target": ("I", 4), "properties": ("I", 4)}


def targets_of(body: bytes) -> list[dict[str, str]]:
    found: list[dict[str, str]] = _head(body)[0]["targets"]
    return found


def decode_rows(body: bytes) -> list[dict[str, Any]]:
    """Every row, with the columns that the body has."""
    head, at = _head(body)
    n = head["rows"]
    columns: dict[str, list[Any]] = {}
    for name in head["columns"]:
        if name in TEXTS:
            lengths = unpack_from(f"<{n}i", body, at)
            at += 4 * n
            texts = []
            for length in lengths:
                texts.append(None if length < 0 else body[at : at + length])
                at += max(0, length)
            columns[name] = texts
        else:
            code, width = NUMBERS.get(name, ("q", 8))
            columns[name] = list(unpack_from(f"<{n}{code}", body, at))
            at += width * n
    assert at == len(body), "bytes are left over after the last row"
    if "properties" in columns:
        lists = head["properties"]
        columns["properties"] = [
            None if index == NO_PROPERTIES else lists[index] for index in columns["properties"]
        ]
    return [{name: column[row] for name, column in columns.items()} for row in range(n)]


def _head(body: bytes) -> tuple[dict[str, Any], int]:
    assert body[:4] == b"ARW1"
    (size,) = unpack_from("<I", body, 4)
    return json.loads(body[8 : 8 + size]), 8 + size
