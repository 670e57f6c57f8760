"""A file rabbitmq.conf while it is read: the settings so far.

The rule: a key's setting is stored where a TOML file would have it; keys that only together make a
setting are kept apart until all of them are read.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Table = dict[str, Any]


@dataclass
class Translation:
    """The result of translating a file."""

    table: Table = field(default_factory=dict, repr=False)
    """Settings, as a TOML file would have them."""
    notes: list[str] = field(default_factory=list)
    """One line for each key ignored."""


class ConfFile:
    """One ``rabbitmq.conf`` while it is read: the settings so far, and parts of values that several
    keys make up together."""

    def __init__(self, memory_bytes: Callable[[], int]) -> None:
        self.memory_bytes = memory_bytes
        self.result = Translation()
        self.user: Table = {}
        self.tags: list[str] = []
        self.loopback: dict[str, bool] = {}
        self.verifies: set[str] = set()  # tables of TLS whose clients are verified
        self.versions: dict[str, set[str]] = {}  # of TLS, by table
        self.ciphers: dict[str, list[str]] = {}
        self.users: dict[str, Table] = {}  # besides the first, by their keys' names
        self.groups: dict[str, Table] = {}  # of keys that are one table, by how they begin
        self.claims: dict[str, str] = {}
        self.backends: dict[str, str] = {}
        self.mechanisms: set[str] = set()
        self.log_dir = Path("/var/log/rabbitmq")

    def __repr__(self) -> str:
        return f"<ConfFile, {len(self.users)} more users>"  # no values: some are secret

    def set(self, dotted: str, value: Any) -> None:
        """Set the setting ``TABLE.KEY`` of a TOML file to ``value``."""
        table = self.result.table
        *tables, name = dotted.split(".")
        for each in tables:
            table = table.setdefault(each, {})
        table[name] = value

    def get(self, dotted: str) -> Any:
        """Return the setting ``TABLE.KEY``; None if it is not set so far."""
        table: Any = self.result.table
        for each in dotted.split("."):
            table = table.get(each, {}) if isinstance(table, dict) else {}
        return None if table == {} else table

    def note(self, key: str, why: str) -> None:
        """Note that a key is ignored."""
        self.result.notes.append(f"{key} is ignored: {why}")


Take = Callable[[ConfFile, str, str], None]
"""Takes the file, the rest of the key after its fixed part, and the value."""


def setting(dotted: str, read: Callable[[str], Any]) -> Take:
    """Return what sets one setting from a key's value. ``read`` converts the value, and raises
    :class:`ValueError` for one that means nothing."""
    return lambda file, _, value: file.set(dotted, read(value))
