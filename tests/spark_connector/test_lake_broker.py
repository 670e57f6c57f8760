"""The offload beside a running broker: what it keeps for the tier, lets go and is asked to roll."""

from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from click.testing import CliRunner
from lake_kit import ORDERS, table_rows

from arneb.cli import arneb
from arneb.demo.process import BrokerProcess
from pyspark_arneb.lake.cursor_guard import CursorGuard
from pyspark_arneb.lake.offload import Offload, OffloadOptions
from pyspark_arneb.lake.table import LogId
from pyspark_arneb.log.remote import Remote
from pyspark_arneb.log.topics import TopicSelection
from pyspark_arneb.service.connection import Address, close_connections
from pyspark_arneb.target import LakeError, Target


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", ["amqp", "http"]) as process:
        yield process
        close_connections()


@pytest.fixture
def channel(broker: BrokerProcess) -> Iterator[pika.channel.Channel]:
    """A channel that confirms, on a broker with an empty queue ``orders``."""
    with pika.BlockingConnection(pika.ConnectionParameters(port=broker.amqp_port)) as connection:
        opened = connection.channel()
        opened.confirm_delivery()
        opened.queue_declare("orders", durable=True)
        yield opened


def address(broker: BrokerProcess) -> Address:
    return Address(f"http://{broker.addresses['http']}")


def offload(
    broker: BrokerProcess, lake: Path, *, cursor: str = "arneb-lake", **options: bool
) -> Offload:
    return Offload(
        Remote(address(broker)),
        Target.of(str(lake)),
        TopicSelection((ORDERS,)),
        CursorGuard(address(broker), cursor),
        OffloadOptions(**options),
    )


def publish(channel: pika.channel.Channel, numbers: range) -> None:
    for number in numbers:
        channel.basic_publish("", "orders", b"%d" % number)


def kept(broker: BrokerProcess) -> int:
    """How many entries the log has."""
    (extent,) = Remote(address(broker)).open().extents([ORDERS])
    return sum(ledger.entries for ledger in extent.ledgers)


def bodies(lake: Path) -> list[int]:
    return [int(row["value"]) for row in table_rows(lake)]


def test_a_growing_ledger_is_rolled_when_asked_for(
    broker: BrokerProcess, channel: pika.channel.Channel, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    publish(channel, range(20))
    assert offload(broker, lake).round().ledgers == 0
    assert offload(broker, lake, roll=True).round().rows == 20
    assert offload(broker, lake, roll=True).round().rows == 0
    assert bodies(lake) == list(range(20))


def test_nothing_is_trimmed_before_it_is_in_the_table(
    broker: BrokerProcess, channel: pika.channel.Channel, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    publish(channel, range(20))
    work = offload(broker, lake)
    assert work.round().ledgers == 0
    # Everybody else is done with them, and the ledger ends: but the tier has not got it.
    channel.queue_purge("orders")
    CursorGuard(address(broker)).roll([log_of(broker)])
    publish(channel, range(20, 25))
    channel.queue_purge("orders")  # it is when a cursor moves that the log is looked at
    CursorGuard(address(broker)).roll([log_of(broker)])
    assert kept(broker) == 25
    assert work.round().rows == 25
    assert bodies(lake) == list(range(25))


def test_what_is_out_is_trimmed_by_choice(
    broker: BrokerProcess, channel: pika.channel.Channel, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    publish(channel, range(20))
    assert offload(broker, lake, roll=True, trim=True).round().rows == 20
    assert kept(broker) == 20, "the queue has not consumed them"
    channel.queue_purge("orders")
    publish(channel, range(20, 30))
    channel.queue_purge("orders")
    assert offload(broker, lake, roll=True, trim=True).round().rows == 10
    assert kept(broker) == 0
    assert bodies(lake) == list(range(30))


def test_two_tables_do_not_share_a_cursor(
    broker: BrokerProcess, channel: pika.channel.Channel, tmp_path: Path
) -> None:
    publish(channel, range(5))
    offload(broker, tmp_path / "lake", roll=True).round()
    with pytest.raises(LakeError, match="arneb-lake of .*orders belongs to another table"):
        offload(broker, tmp_path / "other").round()
    assert offload(broker, tmp_path / "other", cursor="second", roll=True).round().rows == 5


def test_a_table_and_a_directory_say_the_same_as_the_broker(
    broker: BrokerProcess, channel: pika.channel.Channel, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    publish(channel, range(30))
    offload(broker, lake, roll=True).round()
    publish(channel, range(30, 40))
    place = f"http://{broker.addresses['http']}"
    asked = "select count(*) n, max(value::text::int) m from orders"
    for log in (place, str(tmp_path / "data")):
        words = ["sql", asked, "--log", log, "--lake", str(lake), "--format", "csv"]
        assert CliRunner().invoke(arneb, words, catch_exceptions=False).output == "n,m\n40,39\n"


def log_of(broker: BrokerProcess) -> LogId:
    (extent,) = Remote(address(broker)).open().extents([ORDERS])
    return LogId(extent.topic, extent.topic_id)
