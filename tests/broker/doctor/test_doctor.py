"""The doctor: each check finds what is wrong in figures that show it, and nothing in others."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import pika
import pytest
from click.testing import CliRunner

from arneb.cli import arneb
from arneb.demo.process import BrokerProcess
from arneb.doctor import broker_checks
from arneb.doctor.directory import directory_findings, disk_findings, file_system
from arneb.doctor.findings import Finding, Severity
from arneb_core.store.checking.findings import Finding as StoreFinding
from arneb_core.store.checking.findings import FindingKind
from arneb_core.store.environment import Store

HEALTHY: dict[str, Any] = {
    "mem_used": 10, "mem_limit": 100, "mem_alarm": False, "disk_free": 1000,
    "disk_free_limit": 10, "disk_free_alarm": False, "fd_used": 10, "fd_total": 65536,
}  # fmt: skip


def checks(found: Any) -> list[str]:
    return [each.check for each in found]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"mem_alarm": True}, ["memory"]),
        ({"mem_used": 81}, ["memory"]),
        ({"disk_free_alarm": True}, ["disk"]),
        ({"disk_free": 29}, ["disk"]),
        ({"fd_used": 60_000}, ["descriptors"]),
        ({"fd_total": 1024}, ["descriptors"]),
    ],
)
def test_a_node(change: dict[str, Any], expected: list[str]) -> None:
    node = HEALTHY | change
    assert checks([*broker_checks.alarms(node), *broker_checks.descriptors(node)]) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"state": "stopped", "why": "take a copy"}, ["cluster"]),
        ({"trim_alarm": "1 of 2 nodes (n1) have a copy"}, ["log-not-trimmed"]),
        ({"skew_alarm": True}, ["clock"]),
    ],
)
def test_a_member_of_a_cluster(change: dict[str, Any], expected: list[str]) -> None:
    well = {
        "node": "n1", "state": "following", "why": "", "trim_alarm": "", "skew_alarm": False,
        "skew_ms": 200,
    }  # fmt: skip
    assert checks(broker_checks.cluster(well | change)) == expected
    assert checks(broker_checks.cluster({})) == []


def a_queue(name: str, messages: int, consumers: int = 0) -> dict[str, Any]:
    return {"vhost": "/", "name": name, "messages": messages, "consumers": consumers}


def test_queues_that_grow_without_a_consumer_are_named() -> None:
    before = {("/", "grows"): 5, ("/", "drained"): 5, ("/", "stays"): 7, ("/", "large"): 20_000}
    found = [
        a_queue("grows", 6), a_queue("drained", 9, consumers=1), a_queue("stays", 7),
        a_queue("large", 20_000), a_queue("new", 3), a_queue("empty", 0),
    ]  # fmt: skip
    seen = list(broker_checks.queues(found, before))
    assert [(each.check, each.subject) for each in seen] == [
        ("queue-growing", "grows in /"), ("queue-without-consumer", "large in /"),
    ]  # fmt: skip
    many = [a_queue(f"q{number}", 20_000) for number in range(25)]
    assert len(list(broker_checks.queues(many, {}))) == broker_checks.NAMED_MAX + 1


def test_queues_that_grow_although_they_are_consumed_are_reported_with_the_reason() -> None:
    row = {"vhost": "/", "name": "slow", "attention": True, "cause": "at prefetch", "why": "Full."}
    calm, lonely = row | {"attention": False}, row | {"cause": "no consumers"}
    [found] = broker_checks.growth([row, calm, lonely])
    assert (found.check, found.subject, found.what) == ("slow", "slow in /", "Full.")


def test_channels_and_connections_that_delay_others() -> None:
    channel = {"name": "c (1)", "messages_unacknowledged": 20_000, "prefetch_count": 0}
    assert checks(broker_checks.channels([channel, channel | {"messages_unacknowledged": 3}])) == [
        "unacknowledged"
    ]
    assert checks(broker_checks.connections([{"state": "blocked"}, {"state": "running"}])) == [
        "blocked"
    ]
    assert checks(broker_checks.certificates(["a"], ["a", "b"])) == ["certificate", "certificate"]
    assert not checks(broker_checks.clock(1_000, 5_000))
    assert checks(broker_checks.clock(1_000, 60_000)) == ["clock"]


def environment(**listens: str | None) -> dict[str, Any]:
    local = {"amqp": "127.0.0.1:5672", "pulsar": "[::1]:6650", "http": "localhost:15672",
             "http_pulsar": None} | listens  # fmt: skip
    tables: dict[str, Any] = {name: {"listen": listen} for name, listen in local.items()}
    guest = {"name": "guest", "loopback_only": True}
    tables["amqp"] |= {"users": [guest], "loopback_users": ["guest"], "tls": {"listen": None}}
    tables["pulsar"] |= {"authentication": {"methods": []}}
    return tables | {"alarms": {"disk_free_min_bytes": 1}}


def test_ports_that_are_open_to_others() -> None:
    guest = [{"name": "guest"}]
    assert not checks(broker_checks.settings(environment(), guest, True))
    outside = environment(amqp="*:5672")
    assert checks(broker_checks.settings(outside, guest, True)) == ["plain-text"]
    outside["amqp"]["users"][0]["loopback_only"] = False
    assert checks(broker_checks.settings(outside, guest, True)) == ["guest", "plain-text"]
    assert checks(broker_checks.settings(outside, guest, False)) == ["plain-text"]
    every = environment(pulsar="0.0.0.0:1", http_pulsar="[::]:1", http="*:1")
    assert checks(broker_checks.settings(every, guest, True)) == ["open-port"] * 2
    every["pulsar"]["authentication"]["methods"] = ["token"]
    assert not checks(broker_checks.settings(every, guest, True))


MOUNTS = """\
1 0 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
2 1 0:5 / /mnt/a\\040b rw - nfs4 server:/x rw
3 1 0:6 / /mnt rw - tmpfs tmpfs rw
"""


def test_the_place_of_the_data() -> None:
    for path, kind in (
        ("/x", "ext4"),
        ("/mnt/a b/d", "nfs4"),
        ("/mnt/c", "tmpfs"),
        ("/mntx", "ext4"),
    ):
        assert file_system(Path(path), MOUNTS) == kind
    assert not checks(disk_findings(Path("/x"), MOUNTS, 0.5))
    assert checks(disk_findings(Path("/x"), MOUNTS, 0.01)) == ["disk"]
    assert [each.severity for each in disk_findings(Path("/mnt/a b"), MOUNTS, 0.5)] == [
        Severity.ERROR
    ]
    assert [each.severity for each in disk_findings(Path("/x"), "", 0.5)] == [Severity.NOTE]


def test_a_directory_without_a_broker(tmp_path: Path) -> None:
    def never(path: Path) -> list[str]:
        raise AssertionError("not looked at")

    assert "store" in checks(directory_findings(tmp_path / "none", never))
    (tmp_path / "thesis").write_text("")
    [foreign] = [each for each in directory_findings(tmp_path, never) if each.check == "store"]
    assert foreign.do == "name the broker's data_dir"
    with BrokerProcess(tmp_path / "data", listeners=("amqp",)) as broker:
        broker.kill()
    found = {each.check: each for each in directory_findings(tmp_path / "data", lambda _: [])}
    assert found["unclean"].severity is Severity.NOTE
    found = {each.check: each for each in directory_findings(tmp_path / "data", lambda _: ["bad"])}
    assert found["damage"].what == "bad"
    assert "unclean" not in found, "it says that nothing is lost"
    os.chmod(tmp_path / "data" / "data.mdb", 0o644)
    assert "rights" in checks(directory_findings(tmp_path / "data", lambda _: []))


@pytest.mark.parametrize("damaged", [False, True])
def test_a_killed_broker_whose_number_another_process_has(tmp_path: Path, damaged: bool) -> None:
    """In containers every broker has the same number, and so does the doctor."""
    Store.open(tmp_path / "data").close()
    if damaged:
        with (tmp_path / "data" / "data.mdb").open("r+b") as data:
            data.truncate(8192)
    (tmp_path / "data" / "arneb.lock").write_text(f"{os.getpid()}\n")
    found = checks(directory_findings(tmp_path / "data"))
    assert ("store" if damaged else "unclean") in found
    assert "no-answer" not in found


@pytest.mark.parametrize("kind", FindingKind)
def test_the_remains_of_an_unconfirmed_write_are_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: FindingKind
) -> None:
    Store.open(tmp_path / "data").close()
    (tmp_path / "data" / "arneb.lock").write_text("1\n")
    finding = StoreFinding(kind, "arneb.journal", "a record is cut off")
    monkeypatch.setattr("arneb.doctor.directory.check_store", lambda _: [finding])
    found = checks(directory_findings(tmp_path / "data"))
    assert ("unclean" in found) == finding.is_doubt
    assert ("damage" in found) == (not finding.is_doubt)


def test_a_journal_that_cannot_be_read_is_no_matter_of_the_directory(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", listeners=("amqp",)) as broker:
        broker.kill()
    (tmp_path / "data" / "arneb.journal").unlink()
    (tmp_path / "data" / "arneb.journal").mkdir()
    found = {each.check: each for each in directory_findings(tmp_path / "data")}
    assert "unclean" not in found
    assert "arneb salvage" in found["store"].do


def test_a_broker_that_does_not_answer_is_not_healthy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path / "data"):
        done = CliRunner().invoke(arneb, ["doctor", str(tmp_path / "data")])
        assert (done.exit_code, "cannot be asked" in done.output) == (1, True), done.output
    monkeypatch.setattr("arneb.commands.doctor.ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:  # it accepts and says nothing
        host, port = server.getsockname()
        url = f"http://guest:secret@{host}:{port}"
        done = CliRunner().invoke(arneb, ["doctor", "--url", url])
        assert (done.exit_code, "has not answered" in done.output) == (1, True), done.output
        assert "secret" not in done.output


@pytest.mark.parametrize("file", ["", "arneb.journal", "lock.mdb"])
def test_a_directory_that_cannot_be_read_is_reported_in_one_line(tmp_path: Path, file: str) -> None:
    """It has no store, or a directory where a file should be."""
    path = tmp_path / "data"
    path.mkdir()
    if file:
        Store.open(path).close()
        (path / file).unlink(missing_ok=True)
        (path / file).mkdir()
    done = CliRunner().invoke(arneb, ["doctor", str(path)])
    assert done.exit_code == 1
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert "error: " in done.output


def test_the_command_examines_a_running_broker(tmp_path: Path) -> None:
    def diagnosed(*arguments: str, **names: str) -> tuple[int, list[Finding]]:
        done = CliRunner().invoke(arneb, ["doctor", "--format", "json", *arguments], env=names)
        return done.exit_code, [each["check"] for each in json.loads(done.output)["findings"]]

    data = str(tmp_path / "data")
    with BrokerProcess(tmp_path / "data", listeners=("amqp", "http")) as broker:
        parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port)
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.queue_declare("large", durable=True)
            for _ in range(broker_checks.BACKLOG_MIN):
                channel.basic_publish("", "large", b"")
        status, found = diagnosed(data)
        assert (status, "queue-without-consumer" in found) == (1, True)
        status, found = diagnosed("--url", f"http://guest:guest@{broker.addresses['http']}")
        assert "queue-without-consumer" in found
        for more, names in (
            (["--data-dir", data], {}),
            ([], {"ARNEB_DATA_DIR": data}),
            ([], {"ARNEB_URL": f"http://guest:guest@{broker.addresses['http']}"}),
        ):
            assert "queue-without-consumer" in diagnosed(*more, **names)[1], (more, names)
        wrong = f"http://guest:wrong@{broker.addresses['http']}"
        refused = CliRunner().invoke(arneb, ["doctor", "--url", wrong])
        assert (refused.exit_code, refused.output) == (2, "Error: access refused: Not_Authorized\n")
        text = CliRunner().invoke(arneb, ["doctor", data]).output
        assert "10,000 messages and no consumer (large in /)" in text
        assert "  do: " in text
    status, found = diagnosed(data)
    assert "queue-without-consumer" not in found
    for nobody in ([], [data, "--data-dir", data], [data, "--url", "http://127.0.0.1:1"]):
        assert CliRunner().invoke(arneb, ["doctor", *nobody]).exit_code == 2
    assert CliRunner().invoke(arneb, ["doctor", "--url", "http://127.0.0.1:1"]).exit_code == 2
