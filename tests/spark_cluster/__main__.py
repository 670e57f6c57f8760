"""Arneb on a Spark standalone cluster: a master, two workers, and a job by ``spark-submit``.

Run by hand (``make spark-cluster``, on Linux), for it takes minutes. The executors' Python has no
arneb: they get the wheel by ``--py-files``, or a whole environment that ``venv-pack`` has packed.
Workers of a second cluster do not see the broker's directory: these go by ``service.url`` alone.
There a server of Spark Connect has arneb as well, and its client has not. The commands that run on
Spark do so on this machine, on that cluster and on a server of Spark Connect, which both have no
arneb but what the commands bring.

The rule: everything listens on loopback, on ports that the system chooses, and ends with the run.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pika
from conformance.brokers.arneb import Arneb
from tests.spark_cluster.commands import Commands
from tests.spark_cluster.speculation import SLOW
from tests.spark_connector.stream.soak import bodies_in

REPOSITORY: Final = Path(__file__).resolve().parents[2]
JOB: Final = Path(__file__).with_name("job.py")
ROWS: Final = 20_000
WITHIN_S: Final = 120.0

SPECULATING: Final = Path(__file__).with_name("speculation.py")
CONNECTING: Final = Path(__file__).with_name("connecting.py")
CONNECT: Final = (
    "--class",
    "org.apache.spark.sql.connect.service.SparkConnectServer",
    "--conf",
    "spark.connect.grpc.binding.address=127.0.0.1",
    "--conf",
    "spark.connect.grpc.binding.port=0",
    "spark-internal",
)
"""As ``start-connect-server.sh`` starts it."""

HOSTS: Final = {"one": "127.0.0.1", "two": "127.0.0.2"}
"""Of the workers, which are two for Spark."""

SPECULATION: Final = tuple(
    part
    for name, value in {
        "": "true",
        ".interval": "100ms",
        ".multiplier": "1.1",
        ".quantile": "0.3",
        ".minTaskRuntime": "200ms",
        ".efficiency.enabled": "false",
    }.items()
    for part in ("--conf", f"spark.speculation{name}={value}")
)

APART: Final = ("unshare", "--map-root-user", "--mount", "sh", "-c")
"""Runs a shell in which the file systems may be other ones."""

OURS: Final = re.compile(r"arneb|__editable__", re.IGNORECASE)
"""What of an environment belongs to this project."""


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        directory = Path(scratch)
        broker = Arneb(directory / "broker", listeners=("amqp", "http", "pulsar"))
        stack.callback(broker.kill)
        broker.start()
        publish(broker)
        wheel = pack(directory)
        environment = spark_environment(directory, bare_python(directory))
        by_wheel = ("--py-files", wheel)
        path = f"path={broker.data}"
        url = f"service.url=http://127.0.0.1:{broker.http_address.port}"
        with cluster(directory, environment) as master:
            report(path, run(submit(master, *by_wheel), path, environment), wheel.name)
            # What a stream asks on the driver is asked without what came by --py-files.
            driver = environment | {"PYTHONPATH": str(wheel)}
            speculate(broker, submit(master, *by_wheel, *SPECULATION), driver, directory)
        with cluster(directory, environment, apart_from=broker.data) as master:
            report(url, run(submit(master, *by_wheel), url, environment), wheel.name)
            expect_apart(submit(master, *by_wheel), path, environment)
            packed = pack_environment(directory, wheel)
            archived = submit(master, "--archives", f"{packed}#environment")
            carried = environment | {"PYSPARK_PYTHON": "./environment/bin/python"}
            # The driver asks a Python of its own for the source, by the same name.
            shutil.unpack_archive(packed, directory / "environment")
            report(url, run(archived, url, carried, directory), "environment")
            connect(broker, master, environment, directory)
            commands = Commands(broker, directory)
            commands.run_on("local[2]", {})
            commands.run_on(master, environment)
            remote = environment | {"PYTHONPATH": str(directory / "connect")}
            with connect_server(directory, environment, master) as server:
                commands.run_on(server, remote)
    return 0


def submit(master: str, *more: object) -> list[object]:
    """The command that submits the job, but for what it reads."""
    settings = {"spark.executor.memory": "512m", "spark.ui.enabled": "false"}
    flags = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    return [spark_home() / "bin" / "spark-submit", "--master", master, *flags, *more]


def speculate(
    broker: Arneb, command: list[object], environment: Mapping[str, str], directory: Path
) -> None:
    """A streaming query and a batch of which speculative attempts really run: rows are published
    once."""
    queues = {"stream": "out", "batch": "out-batch"}
    with connected(broker) as connection:
        for queue in queues.values():
            connection.channel().queue_declare(queue, durable=True)
    url = f"http://127.0.0.1:{broker.http_address.port}"
    found = report_of(ran([*command, SPECULATING, url, directory], environment))
    for kind, queue in queues.items():
        attempts = found[kind]
        assert f"{SLOW}-1" in attempts, f"Spark has not speculated in the {kind}: {attempts}"  # type: ignore[operator]
        published = Counter(bodies_in(broker.data, queue))
        assert published == Counter(map(body_of, range(ROWS))), (
            f"expected each row of the {kind} exactly once"
        )
        print(f"speculation in a {kind}: attempts {attempts}, {ROWS} rows, each once", flush=True)


def connect(broker: Arneb, master: str, environment: Mapping[str, str], directory: Path) -> None:
    """A client of Spark Connect that has no arneb reads and writes."""
    with connected(broker) as connection:
        for queue in ("connected", "streamed"):
            connection.channel().queue_declare(queue, durable=True)
    more = directory / "connect"
    # What pyspark[connect] asks for; the rest is there.
    needed = ["grpcio", "grpcio-status", "googleapis-common-protos", "zstandard"]
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(more)]
    subprocess.run([*install, *needed], check=True)
    url = f"http://127.0.0.1:{broker.http_address.port}"
    client = environment | {"PYTHONPATH": str(more)}
    checkpoint = directory / "connect-checkpoint"
    wheel = directory / "arneb.zip"
    has_arneb = environment | {"PYTHONPATH": str(wheel)}
    with connect_server(directory, has_arneb, master, "--py-files", wheel) as remote:
        command = [environment["PYSPARK_PYTHON"], CONNECTING, remote, url, checkpoint]
        found = report_of(ran(command, client))
        assert found["rows"] == ROWS, f"expected {ROWS} rows, got {found}"
    for queue in ("connected", "streamed"):
        assert Counter(bodies_in(broker.data, queue)) == Counter(map(body_of, range(ROWS))), queue
    print(f"{remote}: {found}, copied twice, each row once", flush=True)


@contextmanager
def connect_server(
    directory: Path, environment: Mapping[str, str], master: str, *more: object
) -> Iterator[str]:
    """A server of Spark Connect; its URL."""
    log = directory / "connect.log"
    command = submit(master, *more, *CONNECT)
    with log.open("wb") as out:
        server = subprocess.Popen(
            list(map(str, command)),
            # Spark takes it for a daemon, whose memory is that of a master here.
            env={**environment, "SPARK_DAEMON_MEMORY": "700m"},
            stdout=out,
            stderr=out,
        )
    try:
        pattern = r"Spark Connect server started at: \S*?(127\.0\.0\.1:\d+)"
        (at,) = wait_for(log, pattern, 1, server)
        yield f"sc://{at}"
    finally:
        server.terminate()
        server.wait(60)


def connected(broker: Arneb) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.address.port))


def body_of(number: int) -> bytes:
    return b"%0256d" % number


def publish(broker: Arneb) -> None:
    """Messages in the queue ``orders``."""
    with connected(broker) as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        for number in range(ROWS):
            channel.basic_publish("", "orders", body_of(number))
        while channel.queue_declare("orders", passive=True).method.message_count < ROWS:
            connection.process_data_events(0.1)


def pack(directory: Path) -> Path:
    """The wheel, under a name that Spark puts on the executors' path. It has the codecs' entry
    points, which a zip of the folders alone would not have."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*command, str(directory), str(REPOSITORY)], check=True)
    (wheel,) = directory.glob("arneb-*.whl")
    return wheel.rename(directory / "arneb.zip")


def pack_environment(directory: Path, wheel: Path) -> Path:
    """An environment with arneb and what executors need of others, as an archive."""
    place, packed = directory / "packed", directory / "environment.tar.gz"
    named = wheel.with_name(f"arneb-{version('arneb')}-py3-none-any.whl")
    shutil.copy(wheel, named)
    for command in (
        [sys.executable, "-m", "venv", place],
        [place / "bin" / "pip", "install", "--quiet", named, "pyarrow", "pandas", "venv-pack2"],
        [place / "bin" / "venv-pack", "--quiet", "--prefix", place, "--output", packed],
    ):
        subprocess.run(list(map(str, command)), check=True)
    return packed


def bare_python(directory: Path) -> Path:
    """A Python with all that this environment has, without this project."""
    links = directory / "packages"
    links.mkdir()
    for path in map(Path, sys.path):
        if path.name == "site-packages":
            for each in path.iterdir():
                if not OURS.search(each.name) and not (links / each.name).exists():
                    (links / each.name).symlink_to(each)
    python = directory / "python"
    base = Path(sys.base_prefix) / "bin" / "python3"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{links}:$PYTHONPATH" exec {base} "$@"\n')
    python.chmod(0o755)
    found = [python, "-c", "import lmdb, pyarrow; import pyspark_arneb"]
    assert subprocess.run(found, capture_output=True, check=False).returncode, (
        "the executors' Python must not have arneb"
    )
    return python


def spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def spark_environment(directory: Path, python: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return kept | {
        "PYSPARK_PYTHON": str(python),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_LOCAL_DIRS": str(directory / "local"),
        "SPARK_WORKER_DIR": str(directory / "work"),
        "SPARK_DAEMON_MEMORY": "256m",
    }


@contextmanager
def cluster(
    directory: Path, environment: Mapping[str, str], apart_from: Path | None = None
) -> Iterator[str]:
    """A master and two workers of one core each; the master's URL. The workers see nothing in
    ``apart_from``."""
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> Path:
        log = directory / f"{name}.log"
        with log.open("wb") as out:
            command = [str(spark_home() / "bin" / "spark-class"), *arguments]
            if apart_from is not None and name != "master":
                hidden = f'mount -t tmpfs none "{apart_from}" && exec "$@"'
                command = [
                    "unshare",
                    "--map-root-user",
                    "--mount",
                    "sh",
                    "-c",
                    hidden,
                    "-",
                    *command,
                ]
            started.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out))
        return log

    deploy = "org.apache.spark.deploy"
    ports = ("--port", "0", "--webui-port", "0")
    try:
        log = start("master", f"{deploy}.master.Master", "--host", "127.0.0.1", *ports)
        (master,) = wait_for(log, r"Starting Spark master at (spark://\S+)", 1)
        for name, host in HOSTS.items():
            flags = ("--host", host, *ports, "--cores", "2", "--memory", "1g")
            start(name, f"{deploy}.worker.Worker", *flags, master)
        wait_for(log, r"Registering worker (\S+)", 2)
        yield master
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)


def wait_for(
    log: Path, pattern: str, count: int, process: "subprocess.Popen[bytes] | None" = None
) -> list[str]:
    """What the pattern has matched so often in a log, which ``process`` writes."""
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        found = re.findall(pattern, log.read_text(errors="replace"))
        if len(found) >= count:
            return found
        if process is not None and process.poll() is not None:
            break
        time.sleep(0.2)
    raise SystemExit(f"expected {pattern} in {log}:\n{log.read_text()[-2000:]}")


def run(
    command: list[object],
    way: str,
    environment: Mapping[str, str],
    directory: Path | None = None,
) -> dict[str, object]:
    """What the job says, run in a directory."""
    return report_of(
        ran([*command, JOB, way, "topic=orders", "columns=entry_id"], environment, directory)
    )


def report_of(done: "subprocess.CompletedProcess[str]") -> dict[str, object]:
    for each in done.stdout.splitlines():
        if each.startswith("JOB "):
            found: dict[str, object] = json.loads(each.removeprefix("JOB "))
            return found
    errors = [each for each in (done.stdout + done.stderr).splitlines() if "Error" in each]
    raise SystemExit("the job failed:\n" + "\n".join(errors[-10:] or [done.stderr[-2000:]]))


def ran(
    command: list[object], environment: Mapping[str, str], directory: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        list(map(str, command)),
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def report(way: str, found: dict[str, object], origin: str) -> None:
    """Say what came of it, or leave if it is not what was promised."""
    print(f"{way}: {found}", flush=True)
    assert found["rows"] == ROWS, f"expected {ROWS} rows"
    assert all(origin in str(each) for each in found["found"]), f"not from {origin}"  # type: ignore[attr-defined]
    assert int(str(found["workers"])) >= 2, "expected two executors"


def expect_apart(command: list[object], way: str, environment: Mapping[str, str]) -> None:
    """The workers do not see the directory, and the job says so in a line."""
    done = ran([*command, JOB, way, "topic=orders"], environment)
    refusal = [each for each in done.stderr.splitlines() if "StoreUnusable" in each]
    assert done.returncode and refusal, f"{way} was read:\n{done.stdout}"
    print(f"{way}: {refusal[0].strip()}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
