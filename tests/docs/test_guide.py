"""The guide: what it says of names and bounds is compared with the code, what it shows is run."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pika
import pytest
from tests.broker.conftest import FakeCore, a_subscription

from arneb.cli import COMMANDS
from arneb.demo.process import BrokerProcess
from arneb.metrics.own import topic_figures
from arneb.metrics.single_figures import single_figures
from arneb.monitoring.alarms import AlarmStatistics
from arneb.settings.config import Config
from arneb_amqp.topology.queue_types import QueueType
from arneb_amqp.topology.queues.consumer_arguments import CONSUMER_ARGUMENTS
from arneb_amqp.topology.queues.options import ARGUMENTS, Argument
from arneb_core.api.statistics import NOTHING_MEASURED, LongReader

GUIDE: Final = Path(__file__).resolve().parents[2] / "docs" / "guide"
BLOCK: Final = re.compile(r"^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def text_of(page: str) -> str:
    return (GUIDE / page).read_text(encoding="utf-8")


def rows(text: str) -> Iterator[list[str]]:
    """The cells of every row of every table, headings and rules left out."""
    lines = text.splitlines()
    for before, line in zip(["", *lines], lines, strict=False):
        is_rule = re.fullmatch(r"[|-]+", line)
        is_heading = line.startswith("|") and not before.startswith("|")
        if line.startswith("|") and not is_rule and not is_heading:
            yield [cell.strip() for cell in line.strip("|").split("|")]


def section(text: str, heading: str) -> str:
    return text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]


def snippet(page: str, opening: str) -> str:
    [found] = [each["text"] for each in BLOCK.finditer(text_of(page)) if opening in each["text"]]
    return str(found)


# Monitoring


def metrics() -> dict[str, tuple[str, str]]:
    """The type and the help of every metric that a broker has."""
    core = FakeCore()
    core.add("t", a_subscription("s"))
    engine = core.statistics()
    with_reader = type(engine)(
        **{
            **{name: getattr(engine, name) for name in engine.__slots__},
            "long_readers": (LongReader(1, 2, 3.0, 4),),
        }
    )
    alarms = AlarmStatistics(False, 1, 2, False, 3, 4, "")
    page = single_figures(with_reader, 1, alarms, NOTHING_MEASURED)
    page += "".join(topic_figures([each.statistics() for each in core.topics.values()]))
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", page, re.MULTILINE))
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))
    return {name: (kinds[name], text) for name, text in helps.items()}


def labels() -> dict[str, list[str]]:
    core = FakeCore()
    core.add("t", a_subscription("s"))
    page = single_figures(core.statistics(), 1)
    page += "".join(topic_figures([each.statistics() for each in core.topics.values()]))
    return {
        name: re.findall(r'(\w+)="', values)
        for name, values in re.findall(r"^(\w+)\{(.*?)\} ", page, re.MULTILINE)
        if not name.endswith("_bucket")
    }


def test_every_metric_is_named_with_its_type_and_help() -> None:
    named = {
        row[0].strip("`"): (row[1], row[3])
        for row in rows(section(text_of("monitoring.md"), "Metrics"))
    }
    assert named == metrics()


def test_the_labels_are_those_of_the_page() -> None:
    named = {
        row[0].strip("`"): re.findall(r"`(\w+)`", row[2])
        for row in rows(section(text_of("monitoring.md"), "Metrics"))
    }
    for name, found in labels().items():
        assert named[name] == found


def test_every_metric_that_any_page_names_exists() -> None:
    known = metrics()
    for page in GUIDE.glob("*.md"):
        for name in re.findall(r"\barneb_(?!core|amqp|pulsar)\w+[a-z]\b", page.read_text()):
            assert name in known, f"{page.name}: {name}"


def test_the_record_that_is_shown_is_one() -> None:
    record = json.loads(snippet("monitoring.md", '"level"'))
    assert list(record) == ["time", "level", "logger", "message"]


# Arguments


def cell(argument: Argument, kind: QueueType) -> str:
    """What the page says of an argument and a type of queue."""
    if kind in argument.also:
        return "not compared" if argument.option else "not compared, ignored"
    if kind in argument.compared:
        return "yes" if argument.option else "ignored"
    return "no"


def test_the_table_of_queue_arguments_is_the_codes() -> None:
    named = {
        row[0].strip("`"): row[2:5]
        for row in rows(section(text_of("arguments.md"), "Queue arguments"))
    }
    assert named == {each.name: [cell(each, kind) for kind in QueueType] for each in ARGUMENTS}


def test_the_table_of_consumer_arguments_is_the_codes() -> None:
    named = list(rows(section(text_of("arguments.md"), "Consumer arguments")))
    for column, kind in enumerate(QueueType, start=2):
        taken = {row[0].strip("`") for row in named if row[column] in ("yes", "ignored")}
        filters = {"x-stream-filter", "x-stream-match-unfiltered"}  # in nobody's list
        assert taken - filters == set(CONSUMER_ARGUMENTS[kind]), kind


# Limits


def limits() -> list[tuple[str, str]]:
    """What each row says of one bound: its text and its name, a key or a constant."""
    return [
        (row[1], name)
        for row in rows(text_of("limits.md"))
        for name in re.split(r"(?<=`), | = ", row[2])
        if name.startswith("`")
    ]


@pytest.mark.parametrize("name", [name for _, name in limits() if name.startswith("`[")])
def test_a_key_that_bounds_something_exists(name: str) -> None:
    table, key = re.fullmatch(r"`\[(\w+)\] (\w+)`", name).groups()  # type: ignore[union-attr]
    assert hasattr(getattr(Config(), table), key)


def test_every_key_that_bounds_something_is_on_the_page() -> None:
    page = text_of("limits.md")
    for table in Config.__slots__:
        settings = getattr(Config(), table)
        for key in getattr(type(settings), "__dataclass_fields__", ()):
            if key.endswith("_max") or key.startswith("max_"):
                assert f"`[{table}] {key}`" in page


def test_the_constants_have_the_values_of_the_page() -> None:
    named = re.findall(r"`([\w.]+)\.([A-Z_]+)` = ([\d_.]+)", text_of("limits.md"))
    assert len(named) > 20
    for module, name, value in named:
        found = getattr(import_module(module), name)
        assert found == (float(value) if "." in value else int(value)), f"{module}.{name}"


# Moving from RabbitMQ

DEFINITIONS: Final[dict[str, Any]] = {
    "policies": [
        {
            "vhost": "/", "name": "short", "pattern": "^orders", "apply-to": "queues",
            "definition": {"max-length": 2, "ha-mode": "all"}, "priority": 1,
        },
        {
            "vhost": "/", "name": "ae", "pattern": ".*", "apply-to": "all",
            "definition": {"alternate-exchange": "rest"}, "priority": 0,
        },
    ],
    "queues": [
        {
            "vhost": "/", "name": "orders", "durable": True, "auto_delete": False,
            "arguments": {"x-queue-type": "classic"},
        },
        {
            "vhost": "other", "name": "not this", "durable": True, "auto_delete": False,
            "arguments": {},
        },
    ],
    "exchanges": [
        {
            "vhost": "/", "name": name, "type": kind, "durable": True, "auto_delete": False,
            "internal": False, "arguments": {},
        }
        for name, kind in (("shop", "topic"), ("rest", "fanout"))
    ],
    "bindings": [
        {
            "vhost": "/", "source": "shop", "destination": "orders",
            "destination_type": "queue", "routing_key": "order.*", "arguments": {},
        },
        {
            "vhost": "/", "source": "rest", "destination": "shop",
            "destination_type": "exchange", "routing_key": "", "arguments": {},
        },
    ],
}  # fmt: skip


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", listeners=("amqp", "http")) as process:
        yield process


def run(tmp_path: Path, program: str, *arguments: str) -> str:
    file = tmp_path / "program.py"
    file.write_text(program)
    done = subprocess.run(
        [sys.executable, file, *arguments],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def url(broker: BrokerProcess) -> str:
    return f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}/%2F"


def test_definitions_are_declared(tmp_path: Path, broker: BrokerProcess) -> None:
    (tmp_path / "definitions.json").write_text(json.dumps(DEFINITIONS))
    program = snippet("rabbitmq.md", "# declare.py")
    for _ in range(2):  # it may be run again
        printed = run(tmp_path, program, "definitions.json", url(broker))
        assert printed.splitlines() == [
            "queues orders: policy key ha-mode left out",
            "2 exchanges, 1 queues, 2 bindings",
        ]
    connection = pika.BlockingConnection(pika.URLParameters(url(broker)))
    channel = connection.channel()
    arguments = {"x-queue-type": "classic", "x-max-length": 2}
    channel.queue_declare("orders", durable=True, arguments=arguments)
    channel.exchange_declare(
        "shop", "topic", durable=True, arguments={"alternate-exchange": "rest"}
    )
    channel.confirm_delivery()
    channel.basic_publish("rest", "order.1", b"one", mandatory=True)
    assert channel.basic_get("orders", auto_ack=True)[2] == b"one"
    connection.close()


def test_messages_are_moved(tmp_path: Path, broker: BrokerProcess) -> None:
    with BrokerProcess(tmp_path / "other", listeners=("amqp",)) as other:
        for each in (broker, other):
            connection = pika.BlockingConnection(pika.URLParameters(url(each)))
            channel = connection.channel()
            channel.queue_declare("orders", durable=True)
            channel.confirm_delivery()
            for number in range(250 if each is broker else 0):
                properties = pika.BasicProperties(headers={"n": number}, delivery_mode=2)
                channel.basic_publish("", "orders", b"%d" % number, properties)
            connection.close()
        printed = run(
            tmp_path, snippet("rabbitmq.md", "# move.py"), "orders", url(broker), url(other)
        )
        assert printed == "250 messages moved\n"
        connection = pika.BlockingConnection(pika.URLParameters(url(other)))
        channel = connection.channel()
        for number in range(250):
            _, properties, body = channel.basic_get("orders", auto_ack=True)
            assert (body, properties.headers) == (b"%d" % number, {"n": number})
        connection.close()
        connection = pika.BlockingConnection(pika.URLParameters(url(broker)))
        assert connection.channel().queue_declare("orders", passive=True).method.message_count == 0
        connection.close()


# Commands


def test_the_commands_that_the_pages_name_exist() -> None:
    for page in GUIDE.glob("*.md"):
        for name in re.findall(r"`arneb ([a-z-]+)", page.read_text()):
            assert name in COMMANDS, f"{page.name}: arneb {name}"
        for block in BLOCK.finditer(page.read_text()):
            if block["kind"] == "sh":
                for name in re.findall(r"^(?:\S+/)?arneb ([a-z-]+)", block["text"], re.MULTILINE):
                    assert name in COMMANDS, f"{page.name}: arneb {name}"


def test_the_commands_of_monitoring_answer(broker: BrokerProcess) -> None:
    for line in snippet("monitoring.md", "arneb topics").splitlines():
        command = line.replace("127.0.0.1:15672", str(broker.addresses["http"])).split()
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr


def test_a_backup_is_restored_as_requested(tmp_path: Path, broker: BrokerProcess) -> None:
    """Line by line, but for what needs root and systemd."""
    places = {
        "/var/lib/arneb": str(tmp_path / "data"),
        "/backup": str(tmp_path),
        "arneb ": f"{sys.executable} -m arneb ",
    }

    def shell(text: str, *, without: str = "") -> None:
        for line in text.splitlines():
            if not (without and re.match(without, line)):
                for documented, real in places.items():
                    line = re.sub(rf"(?<![\w/-]){re.escape(documented)}", real, line)
                subprocess.run(line, shell=True, check=True, cwd=tmp_path)

    connection = pika.BlockingConnection(pika.URLParameters(url(broker)))
    channel = connection.channel()
    channel.queue_declare("orders", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "orders", b"before")
    shell(snippet("backup.md", "arneb backup"))
    channel.basic_publish("", "orders", b"since")
    connection.close()
    broker.kill()
    shell(snippet("backup.md", "systemctl stop"), without="systemctl|chown")
    with BrokerProcess(tmp_path / "data", listeners=("amqp",)) as restored:
        connection = pika.BlockingConnection(pika.URLParameters(url(restored)))
        channel = connection.channel()
        bodies = [channel.basic_get("orders", auto_ack=True)[2] for _ in range(2)]
        assert bodies == [b"before", None]
        connection.close()
