"""Staged writes: rows that the broker keeps for a task, and the one commit that publishes them.

The rule: a task's rows belong to its attempt, under a name that no other attempt has; the driver
decides, once, which attempts count. The broker stores the number of a query's last committed batch
in the same commit as the rows, so it recognizes a repeated batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark_arneb.service.connection import Address, ask


@dataclass(frozen=True, slots=True)
class Stage:
    """What one attempt of one task has staged for one batch of one query."""

    query: str
    batch: int
    name: str
    pieces: int
    rows: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The outcome of a commit."""

    already: bool
    """The batch was committed before, and nothing was published now."""
    rows: int
    unrouted: int


class Staging(Protocol):
    """The broker as a sink sees it. Everything raises
    :class:`~pyspark_arneb.service.errors.ServiceError`; all but :meth:`publish` may be repeated."""

    def stage(self, query: str, batch: int, stage: str, piece: int, body: bytes) -> bool:
        """Store a piece of a stage durably; False if the batch has been committed already."""
        ...

    def commit(
        self, query: str, batch: int, stages: Sequence[Stage], *, mandatory: bool, is_last: bool
    ) -> Committed:
        """Publish the stages, in this order, in one commit with the number of the batch.
        ``is_last``: nobody asks for a batch of the query again once this one is done."""
        ...

    def abort(self, query: str, batch: int) -> None:
        """Discard everything that was staged for the batch."""
        ...

    def publish(self, body: bytes, *, mandatory: bool) -> int:
        """Publish rows at once and wait for the confirm; return how many rows no queue took."""
        ...


class RemoteStaging:
    """Stages rows through a broker's data API."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def __repr__(self) -> str:
        return f"<RemoteStaging {self._address}>"

    def stage(self, query: str, batch: int, stage: str, piece: int, body: bytes) -> bool:
        where = {"query": query, "batch": batch, "stage": stage, "piece": piece}
        found = ask(self._address, "POST", "/stages", parameters=where, rows=body)
        return not found["already_committed"]

    def commit(
        self, query: str, batch: int, stages: Sequence[Stage], *, mandatory: bool, is_last: bool
    ) -> Committed:
        document = {
            "query": query,
            "batch": batch,
            "stages": [
                {"stage": each.name, "pieces": each.pieces, "rows": each.rows} for each in stages
            ],
            "mandatory": mandatory,
            "last": is_last,
        }
        found = ask(self._address, "POST", "/commits", body=document)
        return Committed(found["already"], found["rows"], found["unrouted"])

    def abort(self, query: str, batch: int) -> None:
        ask(self._address, "DELETE", "/stages", parameters={"query": query, "batch": batch})

    def publish(self, body: bytes, *, mandatory: bool) -> int:
        flags = {"mandatory": "true"} if mandatory else {}
        found = ask(self._address, "POST", "/publish", parameters=flags, rows=body, again=False)
        unrouted: int = found["unrouted"]
        return unrouted
