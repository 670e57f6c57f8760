"""Tools that people use, unchanged: what they report about Arneb and about RabbitMQ."""

import json
import os
import re
import shutil
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

import pika
import pytest
from conformance.brokers.arneb import Arneb
from conformance.brokers.process import Address, Process, environment_without, free_port
from conformance.brokers.rabbitmq import RabbitMQ
from conformance.management.client import Client
from conformance.toolbox import BUILD_WITHIN_S, finished, made_once, python_with, tool

HERE: Final = Path(__file__).parent

NAME: Final = "of the tools"

RUST_MIN: Final = (1, 94)
RUST_WITHIN_S: Final = 1200.0
"""rabbitmqadmin 2 is built from 300 crates."""

FLOWER_WITHIN_S: Final = 180.0
"""It takes seconds to start even on an idle machine."""

PAGE_WITHIN_S: Final = 30.0


@pytest.fixture(scope="module", params=["arneb", "rabbitmq"])
def managed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    if request.param == "rabbitmq" and not RabbitMQ.installed():
        pytest.skip("expected Debian's rabbitmq-server")
    directory = tmp_path_factory.mktemp(request.param)
    is_arneb = request.param == "arneb"
    started: Any = Arneb(directory) if is_arneb else RabbitMQ(directory, management=True)
    started.start()
    yield started
    started.stop()


def address_of(managed: Any) -> Address:
    found: Address = (
        managed.http_address if isinstance(managed, Arneb) else managed.management_address
    )
    return found


@pytest.fixture
def connection(managed: Any) -> Iterator[pika.BlockingConnection]:
    """A connection that has published messages."""
    parameters = pika.URLParameters(managed.url)
    parameters.client_properties = {"connection_name": NAME}
    made = pika.BlockingConnection(parameters)
    channel = made.channel()
    channel.confirm_delivery()
    channel.queue_declare("tools", durable=True)
    for _ in range(10):
        channel.basic_publish("", "tools", b"x")
    end = time.monotonic() + 20
    client = Client(address_of(managed))
    while time.monotonic() < end:  # RabbitMQ takes a moment to show the connection
        made.process_data_events(0.1)
        names = [each["client_properties"] for each in client.call("GET", "connections").json]
        counted = "publish" in client.call("GET", "overview").json["message_stats"]
        if counted and any(each.get("connection_name") == NAME for each in names):
            break
    yield made
    if made.is_open:
        with suppress(pika.exceptions.AMQPError):  # a tool has closed it
            made.close()


def test_rabbit_hole(managed: Any, connection: pika.BlockingConnection) -> None:
    go, place = tool("go", "golang-go"), HERE / "rabbit_hole"

    def make(into: Path) -> None:
        finished([go, "build", "-o", str(into / "scenarios"), "."], place, BUILD_WITHIN_S)

    program = made_once("rabbit-hole", place.iterdir(), make) / "scenarios"
    output_of = finished([str(program), f"http://{address_of(managed)}", NAME], place, 60)
    assert output_of == "ok\n"


def rabbitmqadmin(managed: Any, script: Path, *arguments: str) -> str:
    address = address_of(managed)
    command = [sys.executable, str(script), "-H", address.host, "-P", str(address.port)]
    return finished([*command, *arguments], script.parent, 60)


def test_rabbitmqadmin(managed: Any, connection: pika.BlockingConnection, tmp_path: Path) -> None:
    """The script that the broker itself serves."""
    script = tmp_path / "rabbitmqadmin"
    url = f"http://{address_of(managed)}/cli/rabbitmqadmin"
    with urllib.request.urlopen(url, timeout=10) as answer:
        script.write_bytes(answer.read())

    def output_of(*arguments: str) -> str:
        return rabbitmqadmin(managed, script, *arguments)

    assert "queue declared" in output_of("declare", "queue", "name=admin", "durable=true")
    assert "exchange declared" in output_of("declare", "exchange", "name=adm", "type=fanout")
    assert "binding declared" in output_of("declare", "binding", "source=adm", "destination=admin")
    assert "Message published" in output_of(
        "publish", "exchange=adm", "routing_key=k", "payload=hello"
    )
    assert "hello" in output_of("get", "queue=admin", "ackmode=ack_requeue_false")
    listed = output_of("-f", "raw_json", "list", "queues", "name", "durable")
    assert {"name": "admin", "durable": True} in json.loads(listed)
    for kind in ("nodes", "connections", "channels", "consumers", "exchanges", "bindings",
                 "users", "vhosts", "permissions", "policies", "parameters"):  # fmt: skip
        output_of("list", kind)
    assert "publish" in output_of("-f", "kvp", "show", "overview") or output_of("show", "overview")
    kept = tmp_path / "definitions.json"
    output_of("export", str(kept))
    assert "admin" in [each["name"] for each in json.loads(kept.read_text())["queues"]]
    assert "queue deleted" in output_of("delete", "queue", "name=admin")
    output_of("import", str(kept))
    assert "admin" in output_of("list", "queues", "name")
    assert "queue purged" in output_of("purge", "queue", "name=admin")
    output_of("delete", "queue", "name=admin")
    output_of("delete", "exchange", "name=adm")


def rabbitmqadmin_2() -> Path:
    """rabbitmqadmin 2, which is written in Rust, as built by cargo."""
    cargo, source = tool("cargo", "cargo"), HERE / "rabbitmqadmin_2" / "version.txt"
    rust = finished([tool("rustc", "rustc"), "--version"], HERE, 30).split()[1]
    if tuple(map(int, rust.split(".")[:2])) < RUST_MIN:
        pytest.skip(f"expected Rust {'.'.join(map(str, RUST_MIN))}, which it needs, got {rust}")

    def make(into: Path) -> None:
        version = source.read_text().strip()
        command = [cargo, "install", "rabbitmqadmin", "--version", version, "--locked", "--debug",
                   "--root", str(into)]  # fmt: skip
        settings = {"CARGO_TARGET_DIR": str(into / "target"), "CARGO_PROFILE_DEV_DEBUG": "0"}
        finished(command, HERE, RUST_WITHIN_S, settings)
        shutil.rmtree(into / "target")

    return made_once("rabbitmqadmin-2", [source], make) / "bin" / "rabbitmqadmin"


@pytest.mark.parametrize("managed", ["arneb"], indirect=True)
def test_rabbitmqadmin_2(managed: Any, connection: pika.BlockingConnection, tmp_path: Path) -> None:
    """It is made for RabbitMQ 3.13 and 4, whose behaviour Arneb has."""
    program, address = rabbitmqadmin_2(), address_of(managed)
    where = ["-H", address.host, "-P", str(address.port), "-u", "guest", "-p", "guest"]

    def output_of(*words: str) -> str:
        return finished([str(program), *where, *words], HERE, 60)

    rights = ("--configure", ".*", "--write", ".*", "--read", ".*")
    policy = ("--name", "p2", "--pattern", "^adm", "--apply-to", "queues", "--priority", "1",
              "--definition", '{"max-length": 9}')  # fmt: skip
    assert "Arneb" in output_of("show", "overview")
    output_of("show", "churn")
    output_of("declare", "vhost", "--name", "v2", "--default-queue-type", "quorum")
    output_of("declare", "user", "--name", "u2", "--password", "p", "--tags", "monitoring")
    output_of("declare", "permissions", "--user", "u2", *rights)
    output_of("declare", "queue", "--name", "admin2", "--type", "classic", "--durable", "true")
    output_of("declare", "stream", "--name", "s2", "--expiration", "1h")
    output_of("declare", "exchange", "--name", "ex2", "--type", "fanout", "--durable", "true")
    output_of("declare", "binding", "--source", "ex2", "--destination-type", "queue",
         "--destination", "admin2", "--routing-key", "k")  # fmt: skip
    published = ("--exchange", "ex2", "--routing-key", "k", "--payload", "hello")
    assert "routed successfully" in output_of("publish", "message", *published)
    assert "hello" in output_of("get", "messages", "--queue", "admin2")
    for kind in ("policy", "operator_policy"):
        output_of("declare", kind, *policy)
    output_of("declare", "vhost_limit", "--name", "max-queues", "--value", "100")
    output_of("declare", "user_limit", "--user", "u2", "--name", "max-channels", "--value", "10")
    output_of("declare", "parameter", "--name", "u", "--component", "federation-upstream",
         "--value", '{"uri": "amqp://x"}')  # fmt: skip
    for kind in ("nodes", "vhosts", "users", "queues", "exchanges", "bindings", "connections",
                 "channels", "consumers", "policies", "operator_policies", "parameters",
                 "permissions", "vhost_limits", "user_limits", "feature_flags",
                 "deprecated_features"):  # fmt: skip
        output_of("list", kind)
    assert "admin2" in output_of("list", "queues")
    for words in (["shovels", "list_all"], ["federation", "list_all_upstreams"],
                  ["federation", "list_all_links"], ["streams", "list"], ["plugins", "list_all"],
                  ["passwords", "salt_and_hash", "abc"], ["health_check", "local_alarms"],
                  ["health_check", "node_is_quorum_critical"]):  # fmt: skip
        output_of(*words)
    kept = tmp_path / "definitions.json"
    output_of("definitions", "export", "--file", str(kept))
    output_of("delete", "queue", "--name", "admin2")
    output_of("definitions", "import", "--file", str(kept))
    assert "admin2" in output_of("list", "queues")
    output_of("purge", "queue", "--name", "admin2")
    for kind, name in (("queue", "admin2"), ("queue", "s2"), ("exchange", "ex2"),
                       ("policy", "p2"), ("operator_policy", "p2"), ("user", "u2"),
                       ("vhost", "v2")):  # fmt: skip
        output_of("delete", kind, "--name", name)
    output_of("delete", "vhost_limit", "--name", "max-queues")


def test_curl(managed: Any, connection: pika.BlockingConnection) -> None:
    curl, base = tool("curl", "curl"), f"http://{address_of(managed)}/api"

    def output_of(*arguments: str) -> str:
        return finished([curl, "-sS", "-u", "guest:guest", *arguments], HERE, 30)

    assert json.loads(output_of(f"{base}/overview"))["node"]
    assert json.loads(output_of("--compressed", f"{base}/queues"))
    made = output_of("-o", os.devnull, "-w", "%{http_code}", "-X", "PUT", "-d", "{}",
                "-H", "content-type: application/json", f"{base}/queues/%2F/a%2Fb")  # fmt: skip
    assert made == "201"
    assert json.loads(output_of(f"{base}/queues/%2F/a%2Fb"))["name"] == "a/b"
    head = output_of("-I", f"{base}/overview")
    assert " 200" in head.splitlines()[0] and "application/json" in head
    assert output_of("-o", os.devnull, "-w", "%{http_code}", "-X", "DELETE",
                f"{base}/queues/%2F/a%2Fb") == "204"  # fmt: skip
    refused = [curl, "-sS", "-o", os.devnull, "-w", "%{http_code}", f"{base}/overview"]
    assert finished(refused, HERE, 30) == "401"


def test_keda(managed: Any, connection: pika.BlockingConnection) -> None:
    """The two queries of KEDA's scaler, and the fields that it reads."""
    client = Client(address_of(managed))
    one = client.call("GET", "queues/%2F/tools").json
    assert one["messages"] >= 10 and one["messages_unacknowledged"] == 0
    assert one["message_stats"]["publish_details"]["rate"] >= 0
    query = "page=1&use_regex=true&pagination=false&name=%5Eto.*s%24&page_size=100"
    many = client.call("GET", f"queues/%2F?{query}").json
    assert [each["name"] for each in many["items"]] == ["tools"]
    assert many["items"][0]["messages"] == one["messages"]
    assert client.call("GET", f"queues?{query}").json["items"]


def test_flower(managed: Any, connection: pika.BlockingConnection, tmp_path: Path) -> None:
    """Flower's page of brokers shows each queue with its number of messages."""
    python = python_with(HERE / "flower" / "requirements.txt")
    port = free_port()
    command = [
        str(python), "-m", "celery", f"--broker={managed.url}", "flower", "--address=127.0.0.1",
        f"--port={port}", f"--broker-api=http://guest:guest@{address_of(managed)}/api/",
    ]  # fmt: skip
    connection.channel().queue_declare("celery", durable=True)
    connection.channel().basic_publish("", "celery", b"x")
    environment = environment_without("PYTHON", "CELERY", "FLOWER") | {
        "FLOWER_UNAUTHENTICATED_API": "true"
    }
    flower = Process(command, environment, tmp_path / "flower.log")
    try:
        end, cells = time.monotonic() + FLOWER_WITHIN_S, list[str]()
        url = f"http://127.0.0.1:{port}/broker"
        while time.monotonic() < end and cells[1:2] != ["1"]:
            assert flower.returncode is None, (tmp_path / "flower.log").read_text()[-2000:]
            connection.process_data_events(0.3)
            try:
                with urllib.request.urlopen(url, timeout=PAGE_WITHIN_S) as answer:
                    page = answer.read().decode()
            # it is not ready yet, or has not queried the broker yet
            except (OSError, HTTPException):
                continue
            found = re.findall(r"<td>\s*(.*?)\s*</td>", page, re.DOTALL)
            cells = found[found.index("celery") :] if "celery" in found else []
        assert cells[:2] == ["celery", "1"], (tmp_path / "flower.log").read_text()[-2000:]
    finally:
        flower.kill()
