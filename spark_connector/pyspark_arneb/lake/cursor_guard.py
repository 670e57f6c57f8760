"""The trim guard of a running broker: one durable cursor a topic, through its data API.

The rule: the cursor belongs to one table and has no lease, so it stays even if no offload runs for
a long time; another table must not move it.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from arneb_core.api.entries.position import Position, render
from pyspark_arneb.lake.table import LogId
from pyspark_arneb.service.connection import Address, ask
from pyspark_arneb.service.errors import ServiceError
from pyspark_arneb.target import LakeError

CURSOR: Final = "arneb-lake"
"""The subscription's default name."""

FIRST_LEDGER: Final = Position(0)


class CursorGuard:
    """Keeps ledgers with the subscription ``name``. All methods raise :class:`.LakeError` or
    :class:`arneb_core.api.errors.StoreUnusable`."""

    def __init__(self, address: Address, name: str = CURSOR) -> None:
        self._address = address
        self._name = name
        self._owners: dict[LogId, str] = {}

    def __repr__(self) -> str:
        return f"<CursorGuard {self._name!r} of {len(self._owners)} logs>"

    def hold(self, log: LogId, start: Position, table_id: str) -> None:
        """See :meth:`.TrimGuard.hold`."""
        owner = f"lake-{table_id}"
        initial = "earliest" if start == FIRST_LEDGER else render(start)
        try:
            self._ask(
                "cursors/open",
                {
                    "subscription": self._name,
                    "owner": owner,
                    "lease_s": None,
                    "expect": False,
                    "topics": {log.topic: {"id": log.topic_id, "initial": initial}},
                },
            )
        except ServiceError as error:
            if error.code != "lease_held":
                raise
            raise LakeError(
                f"the cursor {self._name} of {log.topic} belongs to another table; "
                "offload to that target, or give this one its own cursor with --cursor"
            ) from error
        self._owners[log] = owner

    def release(self, log: LogId, before: Position) -> None:
        """See :meth:`.TrimGuard.release`."""
        self._ask(
            "cursors/acknowledge",
            {
                "subscription": self._name,
                "owner": self._owners[log],
                "topics": {log.topic: {"id": log.topic_id, "next": render(before)}},
            },
        )

    def trim(self, log: LogId, before: Position) -> None:
        """See :meth:`.TrimGuard.trim`."""
        wanted = {log.topic: {"id": log.topic_id, "before": render(before)}}
        self._ask("ledgers/trim", {"topics": wanted})

    def roll(self, logs: Collection[LogId]) -> None:
        """See :meth:`.TrimGuard.roll`."""
        self._ask("ledgers/roll", {"topics": {log.topic: {"id": log.topic_id} for log in logs}})

    def _ask(self, path: str, body: Mapping[str, Any]) -> Any:
        return ask(self._address, "POST", f"/{path}", body=body)
