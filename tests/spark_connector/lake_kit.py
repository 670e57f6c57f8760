"""What tests of the sealed tier share: a log to write, offloads, and the rows of either side."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from log_generator import START_MS, LogWriter, amqp_entry, full_topic, pulsar_entry

from arneb_core.api.entries.codec import Message
from arneb_pulsar.codec import encode_messages
from pyspark_arneb.decode.reading import read_batches
from pyspark_arneb.lake.offload import COLUMNS, Offload, OffloadOptions
from pyspark_arneb.lake.table import SealedTable
from pyspark_arneb.lake.trim_guard import NoGuard
from pyspark_arneb.log.directory import Directory
from pyspark_arneb.log.environment import close_environments
from pyspark_arneb.log.topics import TopicSelection
from pyspark_arneb.options import ReadOptions
from pyspark_arneb.plan.ranges import Span
from pyspark_arneb.target import Target

ORDERS = full_topic("orders")

Row = dict[str, Any]


def amqp_entries(count: int, *, start: int = 0, keys: int = 3) -> list[bytes]:
    """Entries whose bodies count up, published a ms apart, with some routing keys."""
    return [
        amqp_entry(b"%d" % n, routing_key=b"key-%d" % (n % keys), publish_time_ms=START_MS + n)
        for n in range(start, start + count)
    ]


def pulsar_batch(count: int, *, start: int = 0, keys: int = 3) -> bytes:
    """One entry of several messages."""
    messages = [
        Message(
            b"%d" % n,
            key=b"key-%d" % (n % keys),
            properties={"n": str(n)},
            publish_time_ms=START_MS + n,
            producer_name="shop",
            sequence_id=n,
        )
        for n in range(start, start + count)
    ]
    return pulsar_entry(encode_messages(messages), messages=count)


def write_ledgers(log: Path, ledgers: int, *, topic: str = "orders", entries: int = 20) -> None:
    """A log of so many closed ledgers, and an open one of half the size behind them."""
    with LogWriter(log) as writer:
        writer.create(topic)
        for number in range(ledgers):
            writer.append(topic, amqp_entries(entries, start=number * entries))
            writer.roll(topic)
        writer.append(topic, amqp_entries(entries // 2, start=ledgers * entries))


def offload(
    log: Path, lake: Path, topics: Iterable[str] = (), **options: Any
) -> tuple[Offload, list[Any]]:
    """An offload of a directory, and the list of what it says is sealed."""
    close_environments()
    names = tuple(map(full_topic, topics))
    selection = TopicSelection(names) if names else TopicSelection(pattern=".*")
    seen: list[Any] = []
    made = Offload(
        Directory(str(log)),
        Target.of(str(lake)),
        selection,
        NoGuard(),
        OffloadOptions(**options),
        seen.append,
    )
    return made, seen


def sealed(lake: Path, topic: str = ORDERS) -> SealedTable:
    """The table of a topic, which must be there."""
    found = SealedTable.open(Target.of(str(lake)), topic)
    assert found is not None, f"no table of {topic}"
    return found


def table_rows(lake: Path, topic: str = ORDERS) -> list[Row]:
    """What the table holds, in the log's order, read by its own library."""
    rows: list[Row] = sealed(lake, topic).dataset().to_table().to_pylist()
    return sorted(rows, key=place)


def place(row: Row) -> tuple[int, int, int, int]:
    """Where a row stands."""
    return row["partition"], row["ledger_id"], row["entry_id"], row["batch_index"]


def log_rows(log: Path, *names: str, through: int | None = None) -> list[Row]:
    """What the logs hold, up to a ledger."""
    close_environments()
    source = Directory(str(log)).open()

    options = ReadOptions(Directory(str(log)), TopicSelection())
    rows: list[Row] = []
    for extent in source.extents([full_topic(name) for name in names or ("orders",)]):
        for ledger in extent.ledgers:
            if through is not None and ledger.first >> 32 > through:
                continue
            span = Span(extent.topic_id, extent.topic, ledger.first, ledger.last, ledger.messages)
            for batch in read_batches(source, span, COLUMNS, options):
                rows += batch.to_pylist()
    return sorted(rows, key=place)
