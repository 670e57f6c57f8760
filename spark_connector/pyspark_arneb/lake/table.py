"""One topic's table in the sealed tier: a Delta table whose log is the manifest.

The rule: a ledger is in the table when a commit says so, and no two commits can say so of the same
ledger. Delta ensures it: a commit that adds ledger *n* of a log carries the transaction (log, *n*),
which fails if another commit with a transaction of that log has come since the table was read.
Commits that replace files are not retried by delta-rs, which would let two of them replace the same
file: the table is read again first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import time_ns
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa

from arneb_core.api.entries.position import LedgerId
from pyspark_arneb.lake.data_file import DataFile, add_action
from pyspark_arneb.log.topics import partition_index, without_partition
from pyspark_arneb.target import TABLE_LOG, LakeError, Target, make_durable

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

    from arneb_core.store.format.schema import TopicId

FORMAT: Final = "1"
"""The format's version, raised when an older version could misread what this one writes."""

FORMAT_PROPERTY: Final = "arneb.format"
TOPIC_PROPERTY: Final = "arneb.topic"
LOG_PROPERTY: Final = "arneb.log."
"""Prefix of the table's properties, followed by the partition's index: the id of the log's
topic."""

CHECKPOINT_COMMITS: Final = "50"
"""Commits between two checkpoints, and so the most files to read to know the table."""

COMMIT_TRIES: Final = 20
"""Attempts at a commit when others come first; each attempt has seen all commits before it."""


@dataclass(frozen=True, slots=True)
class LogId:
    """One log of a table: a topic, or one partition of it."""

    topic: str
    """The topic's name, with the partition's suffix."""
    topic_id: "TopicId"
    """Distinguishes it from other topics that have, or had, the same name."""

    @property
    def partition(self) -> int:
        return partition_index(self.topic)

    @property
    def transaction(self) -> str:
        """The name of the transactions that add its ledgers."""
        return f"arneb.log.{self.topic_id}.{self.topic}"

    @property
    def counter(self) -> str:
        """The name under which those commits store how many messages the log ever had."""
        return f"arneb.messages.{self.topic_id}.{self.topic}"


@dataclass(frozen=True, slots=True)
class SealedFile:
    """A data file as the table's log knows it."""

    path: str
    """Relative to the table."""
    bytes: int
    rows: int
    partition: int
    first: LedgerId
    last: LedgerId


class SealedTable:
    """One topic's table as of one version."""

    def __init__(self, target: Target, topic: str, table: "DeltaTable") -> None:
        self.target = target
        """Where this table is."""
        self.topic = topic
        """The topic's full name, without a partition's suffix."""
        self._table = table

    @classmethod
    def open(cls, lake: Target, topic: str) -> "SealedTable | None":
        """Return the table of a topic, by any of its logs' names; None if there is none.

        Raises :class:`.LakeError` when it cannot be read or is not Arneb's.
        """
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        topic = without_partition(topic)
        target = lake.of_table(topic)
        with _one_line(target):
            try:
                table = DeltaTable(target.delta_uri, storage_options=dict(target.options))
            except TableNotFoundError:
                return None
        _check_ours(target, topic, table)
        return cls(target, topic, table)

    @classmethod
    def open_or_create(cls, lake: Target, topic: str, schema: "pa.Schema") -> "SealedTable":
        """Return the table of a topic, created with the columns ``schema`` or, if it lacks some of
        them, extended by these.

        Raises :class:`.LakeError`, also when a column exists with another type.
        """
        found = cls.open(lake, topic)
        if found is None:
            _create(lake.of_table(without_partition(topic)), without_partition(topic), schema)
            found = cls.open(lake, topic)
            assert found is not None, "it was just made, by us or by somebody else"
        found._widen(schema)
        return found

    @property
    def id(self) -> str:
        """The table's own id, which no other table of the topic has."""
        return str(self._table.metadata().id)

    @property
    def version(self) -> int:
        return int(self._table.version())

    @property
    def schema(self) -> "pa.Schema":
        """The columns as Arrow reads them."""
        return pa.schema(self._table.schema().to_arrow())

    def refresh(self) -> None:
        """Read the commits of others."""
        with _one_line(self.target):
            self._table.update_incremental()

    def topic_id(self, partition: int) -> int | None:
        """Return the id of the topic whose log the table has; None if it has none."""
        found = self._table.metadata().configuration.get(f"{LOG_PROPERTY}{partition}")
        return None if found is None else int(found)

    def adopt(self, log: LogId) -> None:
        """Record the log's topic id, before the first of its ledgers.

        Raises :class:`.LakeError` when the table has the log of another topic of that name.
        """
        known = self.topic_id(log.partition)
        if known is None:
            name = f"{LOG_PROPERTY}{log.partition}"
            with _one_line(self.target):
                self._table.alter.set_table_properties(
                    {name: str(log.topic_id)}, raise_if_not_exists=False
                )
            self.refresh()
            known = self.topic_id(log.partition)
        if known != log.topic_id:
            raise LakeError(
                f"{self.target} holds another topic {log.topic} (its id was {known}, now it is "
                f"{log.topic_id}: it was deleted and recreated, or is another broker's); "
                "give another target, or move the table away"
            )

    def through(self, log: LogId) -> LedgerId | None:
        """Return the last ledger of the log that is in the table; None: none is."""
        found = self._table.transaction_version(log.transaction)
        return None if found is None else LedgerId(found)

    def messages_ever(self, log: LogId) -> int:
        """Return how many messages the log ever had up to the end of the sealed part; 0 if
        unknown."""
        return int(self._table.transaction_version(log.counter) or 0)

    def missing_before(self, log: LogId, messages_before: int) -> int:
        """Return how many messages of the log are neither in the table nor in the log, if the log
        begins after the sealed part with ``messages_before`` before it."""
        sealed = self.messages_ever(log)
        return max(0, messages_before - sealed) if sealed else 0

    def files(self) -> list[SealedFile]:
        """Return the data files, in the order of partitions and ledgers."""
        actions = pa.table(self._table.get_add_actions(flatten=True))
        needed = ("min.partition", "min.ledger_id", "max.ledger_id")
        if actions.num_rows and not set(needed) <= set(actions.schema.names):
            raise LakeError(f"{self.target} has files that Arneb did not write")
        found = [
            SealedFile(
                unquote(row["path"]),
                row["size_bytes"],
                row["num_records"],
                *(row[name] for name in needed),
            )
            for row in actions.to_pylist()
        ]
        return sorted(found, key=lambda file: (file.partition, file.first, file.last))

    def file_uris(self) -> list[str]:
        """Return the URIs of all data files, for readers of Parquet."""
        return list(self._table.file_uris())

    def dataset(self) -> Any:
        """Return the table as a pyarrow data set, which skips files by their statistics."""
        return self._table.to_pyarrow_dataset()

    def commit_ledger(
        self, log: LogId, ledger: LedgerId, files: Sequence[DataFile], messages_ever: int
    ) -> bool:
        """Commit that the table has everything up to ``ledger``, the last part of it in ``files``.
        False if somebody else did so first. ``messages_ever``: how many messages the log ever had
        up to there."""
        from deltalake import CommitProperties, Transaction

        actions = [add_action(file, changes_data=True) for file in files]
        transactions = [
            Transaction(log.transaction, ledger),
            Transaction(log.counter, messages_ever),
        ]
        properties = CommitProperties(app_transactions=transactions)
        for _ in range(COMMIT_TRIES):
            through = self.through(log)
            if through is not None and through >= ledger:
                return False
            if self._commit(actions, properties):
                return True
        raise LakeError(f"{self.target}: other writers committed first {COMMIT_TRIES} times")

    def replace(
        self, old: Iterable[SealedFile], new: Iterable[DataFile], *, changes_data: bool
    ) -> bool:
        """Replace ``old`` by ``new``. False if that is no longer possible, because one of ``old``
        has left the table."""
        from deltalake import CommitProperties
        from deltalake.transaction import RemoveAction

        now_ms = time_ns() // 1_000_000
        old = list(old)
        actions = [
            *(RemoveAction(file.path, changes_data, now_ms, file.bytes, {}) for file in old),
            *(add_action(file, changes_data=changes_data) for file in new),
        ]
        for _ in range(COMMIT_TRIES):
            if not set(old) <= set(self.files()):
                return False
            if self._commit(actions, CommitProperties(max_commit_retries=0)):
                return True
        raise LakeError(f"{self.target}: other writers committed first {COMMIT_TRIES} times")

    def _commit(self, actions: Sequence[Any], properties: "CommitProperties") -> bool:
        """Commit; False if a conflicting commit came first, and then the table is up to date."""
        from deltalake.exceptions import CommitFailedError

        with _one_line(self.target):
            try:
                self._table.create_write_transaction(
                    list(actions), "append", self._table.schema(), commit_properties=properties
                )
            except CommitFailedError:
                self.refresh()
                return False
        self.refresh()
        self._make_durable()
        return True

    def _make_durable(self) -> None:
        """Flush the commit to disk, which delta-rs leaves to the system."""
        directory = self.target.directory
        if directory is not None:
            make_durable(directory / TABLE_LOG / f"{self.version:020d}.json")

    def _widen(self, schema: "pa.Schema") -> None:
        from deltalake import Schema

        there = {field.name: field.type for field in self.schema}
        missing = [field for field in schema if field.name not in there]
        for field in schema:
            if field.name in there and not _same(there[field.name], field.type):
                raise LakeError(
                    f"{self.target} has a column {field.name} of {there[field.name]}, "
                    f"expected {field.type}"
                )
        if missing:
            with _one_line(self.target):
                self._table.alter.add_columns(Schema.from_arrow(pa.schema(missing)).fields)
            self.refresh()

    def vacuum(self, kept_h: int, *, untracked: bool = True) -> int:
        """Delete files that left the table at least ``kept_h`` hours ago, and equally old ones that
        never entered it; return how many."""
        with _one_line(self.target):
            gone = self._table.vacuum(
                kept_h, dry_run=False, enforce_retention_duration=False, full=untracked
            )
        self.refresh()
        return len(set(gone))

    def __repr__(self) -> str:
        return f"<SealedTable {self.topic} version {self.version} in {self.target}>"


def _create(target: Target, topic: str, schema: "pa.Schema") -> None:
    from deltalake import DeltaTable, Schema
    from deltalake.exceptions import DeltaError

    with _one_line(target):
        foreign = next(target.files(), None)
        if foreign is not None and not foreign.startswith(TABLE_LOG):
            raise LakeError(f"{target} holds {foreign} and is no table: give an empty target")
        if target.directory is not None:
            target.directory.mkdir(parents=True, exist_ok=True)
        try:
            DeltaTable.create(
                target.delta_uri,
                Schema.from_arrow(schema),
                storage_options=dict(target.options),
                configuration={
                    FORMAT_PROPERTY: FORMAT,
                    TOPIC_PROPERTY: topic,
                    "delta.checkpointInterval": CHECKPOINT_COMMITS,
                },
                raise_if_key_not_exists=False,
            )
        except DeltaError:
            # It exists if somebody else created it at the same time.
            if not DeltaTable.is_deltatable(target.delta_uri, dict(target.options)):
                raise


def _check_ours(target: Target, topic: str, table: "DeltaTable") -> None:
    properties: Mapping[str, Any] = table.metadata().configuration
    if TOPIC_PROPERTY not in properties:
        raise LakeError(f"{target} is a table that Arneb did not make: give another target")
    if properties.get(FORMAT_PROPERTY) != FORMAT:
        raise LakeError(
            f"{target} has format {properties.get(FORMAT_PROPERTY)}, this version knows {FORMAT}"
        )
    if properties[TOPIC_PROPERTY] != topic:
        raise LakeError(f"{target} is the table of {properties[TOPIC_PROPERTY]}, not of {topic}")
    features = set(table.protocol().reader_features or ())
    if features:
        raise LakeError(
            f"{target} was given features that its files cannot be read without: "
            f"{', '.join(sorted(features))}"
        )


def _same(there: "pa.DataType", wanted: "pa.DataType") -> bool:
    """Return whether a reader of the table cannot distinguish two types: Delta does not name the
    parts of a list or a map."""
    if pa.types.is_nested(there) and type(there) is type(wanted):
        return bool(there.num_fields == wanted.num_fields) and all(
            _same(there.field(i).type, wanted.field(i).type) for i in range(there.num_fields)
        )
    return bool(there.equals(wanted))


@contextmanager
def _one_line(target: Target) -> Iterator[None]:
    """Turn errors of the table's log or files into one line that names the place."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, OSError, pa.ArrowException) as error:
        first = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise LakeError(f"{target}: {first}") from error
