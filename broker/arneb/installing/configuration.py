"""The configuration file of a new installation: every key, with what it means and its default.

The rule: the file as it is written sets nothing but what the caller names; each other key stands
there as a comment with its default, so that taking away the ``#`` changes nothing either.
"""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from arneb.settings.described import Key, Table, described_tables

WIDTH: Final = 100

HEAD: Final = """\
What the broker reads once, when it starts: `arneb serve --config` with this file. A key \
directly after a `#` has the default shown there. Names end in their unit: `_s` seconds, `_ms` \
milliseconds, `_bytes` bytes. SIGHUP applies what may change while the broker runs, and says what \
needs a restart."""


def configuration(data_dir: Path, user: str, password_hash: str) -> str:
    """The text of ``arneb.toml`` for a broker with one administrator."""
    chosen = {
        ("", "data_dir"): _quoted(str(data_dir)),
        ("amqp.users", "name"): _quoted(user),
        ("amqp.users", "password_hash"): _quoted(password_hash),
    }
    lines = list(_comment(HEAD))
    for table in described_tables():
        lines += ["", *_table(table, chosen)]
    return "\n".join(lines) + "\n"


def _table(table: Table, chosen: dict[tuple[str, str], str]) -> Iterator[str]:
    if table.name:
        yield from _comment(table.text)
        brackets = f"[[{table.name}]]" if table.is_list else f"[{table.name}]"
        # A list has as many tables as the file names, and none by itself.
        is_there = not table.is_list or any(name == table.name for name, _ in chosen)
        yield brackets if is_there else f"#{brackets}"
    for key in table.keys:
        yield from _comment(key.text)
        value = chosen.get((table.name, key.name))
        yield f"{key.name} = {value}" if value else f"#{key.name} = {_example(key)}"


def _example(key: Key) -> str:
    """The default; where there is none, what a value may be."""
    return key.default.strip("`") if key.default.startswith("`") else f"<{key.type}>"


def _comment(text: str) -> Iterator[str]:
    for line in textwrap.wrap(text, WIDTH - 2, break_long_words=False, break_on_hyphens=False):
        yield f"# {line}"


def _quoted(text: str) -> str:
    """A basic string of TOML."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    if any(ord(each) < ord(" ") or ord(each) == 0x7F for each in plain):
        raise ValueError(f"expected a name without control characters, got {text!r}")
    return f'"{plain}"'
