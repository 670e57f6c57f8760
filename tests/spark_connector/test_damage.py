"""Damage: what cannot be read is named, and everything else is read."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import lmdb
import pyarrow as pa
import pytest
from log_generator import LogWriter, amqp_entry, pulsar_entry
from pyspark.sql.datasource import EqualTo

from arneb_core.api.entries.codec import Message
from arneb_core.api.entries.position import Position, position_at
from arneb_core.store.format.bodies import SHARED_BYTES_MIN
from arneb_core.store.format.schema import BodyKey, Table, TopicId, entry_key
from arneb_core.store.reading.stored_blocks import StoredBlock
from arneb_pulsar.codec import encode_messages
from pyspark_arneb.batch import BatchReader, PushdownReader
from pyspark_arneb.decode.reading import read_batches
from pyspark_arneb.errors import CorruptionError
from pyspark_arneb.log.environment import close_environments
from pyspark_arneb.options import ReadOptions, read_options
from pyspark_arneb.plan.planning import plan_read
from pyspark_arneb.schema import RowFlag, columns_of


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """Three blocks of two entries each in ledger 1 of topic ``t``."""
    path = tmp_path / "log"
    with LogWriter(path) as writer:
        writer.create("t")
        for start in (0, 2, 4):
            writer.append("t", [amqp_entry(b"%d" % n) for n in range(start, start + 2)])
    yield path
    close_environments()


def rewrite(path: Path, key: bytes, change: Sequence[tuple[int, int]], table: Table) -> None:
    """Change bytes of a row, as a disk may: each is a place and what is added to the byte there."""
    env = lmdb.open(str(path), max_dbs=32, lib_version=0)
    with env.begin(write=True) as txn:
        database = env.open_db(table.value, txn, create=False)
        value = bytearray(txn.get(key, db=database))
        for place, addend in change:
            value[place] = (value[place] + addend) % 256
        txn.put(key, bytes(value), db=database)
    env.close()


def options(path: Path, **given: object) -> ReadOptions:
    return read_options(
        {"path": str(path), "topic": "t", **{name: str(value) for name, value in given.items()}}
    )


def rows(read: ReadOptions) -> list[dict[str, object]]:
    columns = columns_of(read)
    source = read.location.open()
    batches: list[pa.RecordBatch] = []
    for span in plan_read(read).spans:
        batches += read_batches(source, span, columns, read)
    return [row for batch in batches for row in batch.to_pylist()]


SECOND = entry_key(TopicId(1), position_at(1, 3))
"""The key of the block with entries 2 and 3."""


@pytest.mark.parametrize("place", [0, 4, 9, 30, -1])
def test_a_damaged_block_is_named_and_every_other_is_read(log: Path, place: int) -> None:
    """Be it damaged in its head, which says where it begins, or behind it."""
    rewrite(log, SECOND, [(place, 7)], Table.ENTRIES)
    with pytest.raises(CorruptionError, match=r"default/t, entries 1:2 to 1:3 are damaged: exp.*"):
        rows(options(log))
    found = rows(options(log, onCorrupt="skip"))
    assert [row["value"] for row in found] == [b"0", b"1", b"4", b"5"]
    raw = rows(options(log, onCorrupt="raw"))
    assert [(row["entry_id"], row["flags"]) for row in raw] == [
        (0, 0), (1, 0), (2, RowFlag.RAW | RowFlag.CORRUPT), (4, 0), (5, 0)
    ]  # fmt: skip
    assert raw[2]["key"] is None
    stored = raw[2]["value"]
    assert isinstance(stored, bytes) and len(stored) > 100


def test_of_a_damaged_block_only_what_the_read_covers_is_reported(log: Path) -> None:
    rewrite(log, SECOND, [(-1, 1)], Table.ENTRIES)
    bounds = {"startingOffsets": '{"t": "1:3"}', "endingOffsets": '{"t": "1:5"}'}
    with pytest.raises(CorruptionError, match=r"entries 1:3 to 1:3 are damaged"):
        rows(options(log, **bounds))
    found = rows(options(log, onCorrupt="skip", **bounds))
    assert [row["value"] for row in found] == [b"4"]


@pytest.mark.parametrize("parts", range(1, 8))
@pytest.mark.parametrize("table", [Table.ENTRIES, Table.BODIES])
def test_what_is_damaged_is_one_row_however_the_read_is_divided(
    tmp_path: Path, parts: int, table: Table
) -> None:
    """Of a block or of a run of lost bodies, with ``onCorrupt`` ``raw``."""
    path = tmp_path / "log"
    large = amqp_entry(bytes(SHARED_BYTES_MIN))
    run = [amqp_entry(b"0"), large, large, large, amqp_entry(b"4"), amqp_entry(b"5")]
    with LogWriter(path) as writer:
        writer.create("t")
        writer.create("u")
        writer.append_all({"t": run, "u": run}, shared=[large])
        writer.append("t", [amqp_entry(b"6")])
    place = position_at(1, 5) if table is Table.ENTRIES else position_at(1, 1)
    key = entry_key(TopicId(1), place)
    rewrite(path, key if table is Table.ENTRIES else BodyKey(key), [(-1, 1)], table)
    read = options(path, onCorrupt="raw", minPartitions=parts)
    assert len(BatchReader(read, columns_of(read)).partitions()) == parts
    expected = [0, 6] if table is Table.ENTRIES else [0, 1, 4, 5, 6]
    assert partitioned(BatchReader(read, columns_of(read))) == expected
    for entry in range(7):
        asked = PushdownReader(read, columns_of(read))
        list(asked.pushFilters([EqualTo(("entry_id",), entry)]))
        assert partitioned(asked) == [each for each in expected if each == entry]


def partitioned(reader: BatchReader) -> list[int]:
    """The entry ids of all parts."""
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [row["entry_id"] for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("damaged", [position_at(1, 1), position_at(1, 5)])
def test_damage_at_either_end_does_not_keep_the_read_from_being_planned(
    log: Path, damaged: Position
) -> None:
    rewrite(log, entry_key(TopicId(1), damaged), [(-1, 1)], Table.ENTRIES)
    assert len(rows(options(log, onCorrupt="skip"))) == 4


def test_an_entry_that_is_none_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with LogWriter(path) as writer:
        writer.create("t")
        writer.append("t", [amqp_entry(b"0")])
        head = bytearray(amqp_entry(b"1"))
        head[1] = 99  # an origin that nobody knows
        writer.append("t", [bytes(head), amqp_entry(b"2")])
    with pytest.raises(CorruptionError, match=r"entries 1:1 to 1:1 .* known format and origin"):
        rows(options(path))
    assert [row["value"] for row in rows(options(path, onCorrupt="skip"))] == [b"0", b"2"]


def test_a_lost_body_costs_only_the_entries_that_refer_to_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    large = amqp_entry(bytes(SHARED_BYTES_MIN))
    with LogWriter(path) as writer:
        writer.create("t")
        writer.create("u")
        run = [amqp_entry(b"0"), large, amqp_entry(b"2")]
        writer.append_all({"t": run, "u": run}, shared=[large])
    key = BodyKey(entry_key(TopicId(1), position_at(1, 1)))
    rewrite(path, key, [(10, 1)], Table.BODIES)
    with pytest.raises(CorruptionError, match=r"entries 1:1 to 1:1 are damaged: expected a body"):
        rows(options(path))
    assert [row["value"] for row in rows(options(path, onCorrupt="skip"))] == [b"0", b"2"]


def test_a_foreign_lmdb_is_refused_in_one_line(tmp_path: Path) -> None:
    env = lmdb.open(str(tmp_path / "foreign"), lib_version=0)
    with env.begin(write=True) as txn:
        txn.put(b"a", b"b")
    env.close()
    with pytest.raises(Exception, match="foreign") as refusal:
        rows(options(tmp_path / "foreign"))
    assert "\n" not in str(refusal.value)
    close_environments()


def chunks(uuid: str, payload: bytes, count: int) -> list[bytes]:
    """The entries of a message that its producer divided."""
    from arneb_pulsar.packing.entries import make_entry
    from arneb_pulsar.wire.checksum import join_body
    from arneb_pulsar.wire.proto.pulsar_pb2 import MessageMetadata

    size = -(-len(payload) // count)
    found = []
    for index in range(count):
        metadata = MessageMetadata(
            producer_name="p", sequence_id=5, publish_time=7, uuid=uuid, partition_key="k",
            num_chunks_from_msg=count, chunk_id=index, total_chunk_msg_size=len(payload),
        )  # fmt: skip
        part = payload[index * size : (index + 1) * size]
        found.append(make_entry(join_body(metadata.SerializeToString(), part), 7))
    return found


SMALL = pulsar_entry(encode_messages([Message(b"s", publish_time_ms=7)]))


@pytest.mark.parametrize("columns", ["entry_id,value,key,flags", "entry_id"])
def test_a_divided_message_is_one_row_where_it_ends(tmp_path: Path, columns: str) -> None:
    """Whoever reads its last part finds the others: in its span, before it, in older ledgers."""
    path = tmp_path / "log"
    one, two = chunks("one", b"0123456789", 3), chunks("two", b"abcdef", 3)
    with LogWriter(path) as writer:
        writer.create("t")
        writer.append("t", [one[0], two[0], SMALL])
        writer.roll("t")
        writer.append("t", [one[1], SMALL, one[2], two[1], two[2]])
    whole = rows(options(path, columns=columns))
    places = [row["entry_id"] for row in whole]
    assert places == [2, 1, 2, 4]
    if "value" in columns:
        assert [row["value"] for row in whole] == [b"s", b"s", b"0123456789", b"abcdef"]
        assert [row["key"] for row in whole] == [None, None, b"k", b"k"]
        assert {row["flags"] for row in whole} == {0}
    late = rows(options(path, columns=columns, startingOffsets='{"t": "2:2"}'))
    assert late == whole[2:]


def test_a_message_whose_beginning_is_gone_is_a_raw_row(tmp_path: Path) -> None:
    path = tmp_path / "log"
    parts = chunks("one", b"0123456789", 3)
    with LogWriter(path) as writer:
        writer.create("t")
        writer.append("t", [parts[0], parts[2], *chunks("unfinished", b"abcd", 2)[:1]])
    (row,) = rows(options(path))
    assert (row["entry_id"], row["flags"]) == (1, RowFlag.RAW | 4)


def test_a_block_knows_how_large_it_is_with_its_bodies() -> None:
    assert StoredBlock(Position(1), b"123", {BodyKey(b"k"): b"4567"}).size == 7
