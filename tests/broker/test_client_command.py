"""``arneb client``: messages from the command line and back to it."""

import json
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from conformance.brokers.arneb import Arneb, arneb_command, arneb_environment

NUMBERS = count(1)
WITHIN_S = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arneb]:
    made = Arneb(
        tmp_path_factory.mktemp("broker"), listeners=("pulsar", "amqp", "http-pulsar")
    ).start()
    yield made
    made.stop()


@pytest.fixture
def topic() -> str:
    return f"topic-{next(NUMBERS)}"


def played(
    broker: Arneb, *arguments: str, stdin: bytes = b"", status: int = 0
) -> subprocess.CompletedProcess[bytes]:
    return played_at(broker.pulsar_url, *arguments, stdin=stdin, status=status)


def played_at(
    url: str, *arguments: str, stdin: bytes = b"", status: int = 0
) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        [*arneb_command(), "client", "-b", url, *arguments],
        env=arneb_environment(),
        input=stdin,
        capture_output=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == status, done.stderr.decode()
    return done


def test_lines_come_back_as_they_were(broker: Arneb, topic: str) -> None:
    done = played(broker, "produce", topic, "-K", ":", "-H", "a=b", stdin=b"k:1\nk:2\n3\n")
    assert done.stdout == b""
    assert b"3 messages stored" in done.stderr
    printed = played(broker, "read", topic, "-e", "-f", r"%k=%s (%h)\n").stdout
    assert printed == b"k=1 (a=b)\nk=2 (a=b)\n=3 (a=b)\n"
    assert played(broker, "read", topic, "-o", "beginning", "-c", "1").stdout == b"1\n"


def test_what_is_printed_as_json_can_be_sent_again(broker: Arneb, topic: str) -> None:
    lines = [
        {"value": "text", "key": "k", "properties": {"a": "b"}, "event_time_ms": 5},
        {"value_base64": "/wA=", "key_base64": "/w=="},
        {"value": None, "key": "gone"},
    ]
    sent = "".join(json.dumps(each) + "\n" for each in lines).encode()
    played(broker, "produce", topic, "-J", "-z", "zstd", stdin=sent)
    printed = played(broker, "read", topic, "-e", "-J").stdout
    again = f"{topic}-again"
    played(broker, "produce", again, "-J", stdin=printed)
    found = [
        json.loads(each) for each in played(broker, "read", again, "-e", "-J").stdout.splitlines()
    ]
    given = [{name: each[name] for name in line} for line, each in zip(lines, found, strict=True)]
    assert given == lines


def test_a_subscription_goes_on_where_it_was(broker: Arneb, topic: str) -> None:
    played(broker, "produce", topic, stdin=b"1\n2\n3\n")
    consume = ("consume", topic, "-s", "mine", "-q")
    first = played(broker, *consume, "-o", "beginning", "-c", "2")
    assert (first.stdout, first.stderr) == (b"1\n2\n", b"")
    assert played(broker, *consume, "-e").stdout == b"3\n"


def test_files_are_messages(broker: Arneb, topic: str, tmp_path: Path) -> None:
    paths = [tmp_path / "one", tmp_path / "two"]
    for path in paths:
        path.write_bytes(path.name.encode() + b"\nsecond line\n")
    played(broker, "produce", topic, *map(str, paths))
    assert played(broker, "read", topic, "-e", "-f", "%S,").stdout == b"16,16,"


def test_a_ping_says_who_answers(broker: Arneb) -> None:
    said = played(broker, "ping", "-c", "2", "-i", "0").stdout
    assert said.count(b"Arneb") == 2
    assert b"2 answers" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("read", "topic", "-f", "%y", "-e"), b"got %y"),
        (("read", "topic", "-o", "yesterday"), b"got 'yesterday'"),
        (("consume", "a/b", "-c", "1"), b"tenant/namespace/topic"),
    ],
)
def test_what_cannot_be_meant_is_one_line(
    broker: Arneb, arguments: tuple[str, ...], said: bytes
) -> None:
    done = played(broker, *arguments, status=2)
    assert said in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_broker_that_is_not_there_is_one_line() -> None:
    done = subprocess.run(
        [*arneb_command(), "client", "-b", "pulsar://127.0.0.1:1", "--timeout", "0.5", "ping"],
        env=arneb_environment(),
        capture_output=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 2
    assert b"expected a Pulsar broker at pulsar://127.0.0.1:1" in done.stderr
    assert b"Traceback" not in done.stderr


def test_whoever_reads_no_more_ends_a_command_that_waits(broker: Arneb, topic: str) -> None:
    said = played(broker, "produce", topic, stdin=b"1\n").stderr
    assert said.startswith(b"1 message stored")
    with subprocess.Popen(
        [*arneb_command(), "client", "-b", broker.pulsar_url, "read", topic],
        env=arneb_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as reading:
        assert reading.stdout is not None
        assert reading.stderr is not None
        assert reading.stdout.readline() == b"1\n"
        reading.stdout.close()
        assert reading.wait(WITHIN_S) == 0
        assert reading.stderr.read() == b"1 message\n"


def test_a_wrong_port_is_told_by_what_it_speaks(broker: Arneb) -> None:
    admin = broker.admin_url.removeprefix("http://")
    for address, expected in (
        (f"pulsar://{broker.address}", "speaks AMQP"),
        (f"pulsar://{admin}", "speaks HTTP: a URL that begins with http://"),
        ("amqp://127.0.0.1:1", "expected a URL that begins with one of pulsar"),
    ):
        done = played_at(address, "--timeout", "10", "ping", "-c", "1", status=2)
        assert expected in done.stderr.decode()
    said = played_at(broker.admin_url, "ping", "-c", "2", "-i", "0").stdout.decode().splitlines()
    assert len(said) == 3
    assert said[0].startswith(broker.pulsar_url)
