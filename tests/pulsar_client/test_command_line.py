"""``arneb client`` against each broker: messages from the command line and back to it."""

import json
import signal
import subprocess
from pathlib import Path

import pytest
from conformance.brokers.arneb import arneb_command, arneb_environment
from tests.client_command import played
from tests.pulsar_client.conftest import Broker

pytestmark = pytest.mark.in_peace("each command is a client of its own, and counts what it gets")


def test_lines_come_back_as_they_were(broker: Broker, topic: str) -> None:
    done = played(
        broker.pulsar_url, "produce", topic, "-K", ":", "-H", "a=b", stdin=b"k:1\nk:2\n3\n"
    )
    assert done.stdout == b""
    assert b"3 messages stored" in done.stderr
    printed = played(broker.pulsar_url, "read", topic, "-e", "-f", r"%k=%s (%h)\n").stdout
    assert printed == b"k=1 (a=b)\nk=2 (a=b)\n=3 (a=b)\n"
    assert played(broker.pulsar_url, "read", topic, "-o", "beginning", "-c", "1").stdout == b"1\n"


def test_what_is_printed_as_json_can_be_sent_again(broker: Broker, topic: str) -> None:
    lines = [
        {"value": "text", "key": "k", "properties": {"a": "b"}, "event_time_ms": 5},
        {"value_base64": "/wA=", "key_base64": "/w=="},
        {"value": None, "key": "gone"},
    ]
    sent = "".join(json.dumps(each) + "\n" for each in lines).encode()
    played(broker.pulsar_url, "produce", topic, "-J", "-z", "zstd", stdin=sent)
    printed = played(broker.pulsar_url, "read", topic, "-e", "-J").stdout
    again = f"{topic}-again"
    played(broker.pulsar_url, "produce", again, "-J", stdin=printed)
    found = [
        json.loads(each)
        for each in played(broker.pulsar_url, "read", again, "-e", "-J").stdout.splitlines()
    ]
    given = [{name: each[name] for name in line} for line, each in zip(lines, found, strict=True)]
    assert given == lines


def test_a_subscription_goes_on_where_it_was(broker: Broker, topic: str) -> None:
    played(broker.pulsar_url, "produce", topic, stdin=b"1\n2\n3\n")
    consume = ("consume", topic, "-s", "mine", "-q")
    first = played(broker.pulsar_url, *consume, "-o", "beginning", "-c", "2")
    assert (first.stdout, first.stderr) == (b"1\n2\n", b"")
    assert played(broker.pulsar_url, *consume, "-e").stdout == b"3\n"


def test_an_id_that_was_printed_is_a_place_to_begin_at(broker: Broker, topic: str) -> None:
    played(broker.pulsar_url, "consume", topic, "-s", "keeps", "-e")
    played(broker.pulsar_url, "produce", topic, stdin=b"1\n2\n3\n")
    ids = played(broker.pulsar_url, "read", topic, "-e", "-f", r"%o\n").stdout.decode().split()
    assert len(set(ids)) == 3
    assert played(broker.pulsar_url, "read", topic, "-o", ids[1], "-e").stdout == b"2\n3\n"
    taken = played(
        broker.pulsar_url, "consume", topic, "-s", "mine", "-o", ids[1], "-c", "1", "-J"
    ).stdout
    assert json.loads(taken)["id"] == ids[1]
    assert played(broker.pulsar_url, "consume", topic, "-s", "mine", "-e").stdout == b"3\n"


def test_files_are_messages(broker: Broker, topic: str, tmp_path: Path) -> None:
    paths = [tmp_path / "one", tmp_path / "two"]
    for path in paths:
        path.write_bytes(path.name.encode() + b"\nsecond line\n")
    played(broker.pulsar_url, "produce", topic, *map(str, paths))
    assert played(broker.pulsar_url, "read", topic, "-e", "-f", "%S,").stdout == b"16,16,"


def test_what_is_not_there_is_not_made_by_reading_it(broker: Broker, topic: str) -> None:
    for url in (broker.pulsar_url, broker.http_url):
        for _ in range(2):
            done = played(url, "read", topic, "-e", status=2)
            assert topic.encode() in done.stderr
    if broker.name != "arneb":
        return  # with transactions it cannot tell the last message of one that is not persistent
    passing = topic.replace("persistent://", "non-persistent://")
    assert played(broker.pulsar_url, "read", passing, "-e").stdout == b""


def test_a_ping_says_who_answers(broker: Broker) -> None:
    output = played(broker.pulsar_url, "ping", "-c", "2", "-i", "0").stdout
    assert output.count(b"Arneb" if broker.name == "arneb" else b"Pulsar") == 2
    assert b"2 answers" in output


@pytest.mark.parametrize("kind", ["exclusive", "shared"])
def test_peeking_and_starting_at_the_end_both_see_the_end(
    broker: Broker, topic: str, kind: str
) -> None:
    played(broker.pulsar_url, "produce", topic, stdin=b"1\n2\n")
    look = ("consume", topic, "-s", "mine", "-t", kind, "-q", "-e")
    for _ in range(2):
        assert played(broker.pulsar_url, *look, "-o", "beginning", "--peek").stdout == b"1\n2\n"
    assert played(broker.pulsar_url, *look, "-o", "end").stdout == b""
    assert played(broker.pulsar_url, "read", topic, "-o", "end", "-e").stdout == b""


def test_ctrl_c_at_a_terminal_ends_it_and_what_was_sent_is_stored(
    broker: Broker, topic: str
) -> None:
    command = [*arneb_command(), "client", "-b", broker.pulsar_url, "produce", topic]
    with subprocess.Popen(
        command,
        env=arneb_environment(),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"1\n2\nhalf")
        process.stdin.flush()
        look = [*arneb_command(), "client", "-b", broker.pulsar_url, "read", topic, "-e", "-q"]
        # As long as nothing was sent there is no topic to be read.
        while (
            subprocess.run(look, env=arneb_environment(), capture_output=True, check=False).stdout
            != b"1\n2\n"
        ):
            pass
        process.send_signal(signal.SIGINT)
        # Its standard input is open all the while.
        assert process.wait(60) == 128 + signal.SIGINT
        assert process.stderr is not None
        assert b"2 messages stored" in process.stderr.read()


def test_what_is_no_message_ends_it_and_what_was_before_is_stored(
    broker: Broker, topic: str
) -> None:
    lines = b'{"value": "1"}\n{"value": \n{"value": "2"}\n'
    done = played(broker.pulsar_url, "produce", topic, "-J", stdin=lines, status=2)
    assert b"expected a line of JSON" in done.stderr
    assert played(broker.pulsar_url, "read", topic, "-e").stdout == b"1\n"
