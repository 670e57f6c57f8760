"""Arneb on a Spark standalone cluster: a master, two workers, and a job by ``spark-submit``.

Run by hand (``make spark-cluster``), for it takes minutes. The executors' Python has no arneb: they
get the wheel by ``--py-files``, which is what is proved here, for both ways in.

The rule: everything listens on loopback, on ports that the system chooses, and ends with the run.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pika
from conformance.brokers.arneb import Arneb

REPOSITORY: Final = Path(__file__).resolve().parents[2]
JOB: Final = Path(__file__).with_name("job.py")
ROWS: Final = 20_000
WITHIN_S: Final = 120.0

OURS: Final = re.compile(r"arneb|__editable__", re.IGNORECASE)
"""What of an environment belongs to this project."""


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        directory = Path(scratch)
        broker = Arneb(directory / "broker", listeners=("amqp", "http"))
        stack.callback(broker.kill)
        broker.start()
        publish(broker)
        packed = pack(directory)
        python = bare_python(directory)
        environment = spark_environment(directory, python)
        master = stack.enter_context(cluster(directory, environment))
        submit = [spark_home() / "bin" / "spark-submit", "--master", master]
        settings = {"spark.executor.memory": "512m", "spark.ui.enabled": "false"}
        flags = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        url = f"service.url=http://127.0.0.1:{broker.http_address.port}"
        for way in (f"path={broker.data}", url):
            line = [
                *submit,
                *flags,
                "--py-files",
                packed,
                JOB,
                way,
                "topic=orders",
                "columns=entry_id",
            ]
            report(way.partition("=")[0], run(line, environment))
    return 0


def publish(broker: Arneb) -> None:
    """Messages in the queue ``orders``."""
    address = pika.ConnectionParameters("127.0.0.1", broker.address.port)
    with pika.BlockingConnection(address) as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        for _ in range(ROWS):
            channel.basic_publish("", "orders", b"x" * 256)
        while channel.queue_declare("orders", passive=True).method.message_count < ROWS:
            connection.process_data_events(0.1)


def pack(directory: Path) -> Path:
    """The wheel, under a name that Spark puts on the executors' path. It has the codecs' entry
    points, which a zip of the folders alone would not have."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*command, str(directory), str(REPOSITORY)], check=True)
    (wheel,) = directory.glob("arneb-*.whl")
    return wheel.rename(directory / "arneb.zip")


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
    assert subprocess.run(found, capture_output=True, check=False).returncode, "it has the project"
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
def cluster(directory: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """A master and two workers of one core each; the master's URL."""
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> Path:
        log = directory / f"{name}.log"
        with log.open("wb") as out:
            command = [str(spark_home() / "bin" / "spark-class"), *arguments]
            started.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out))
        return log

    deploy = "org.apache.spark.deploy"
    ports = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    try:
        log = start("master", f"{deploy}.master.Master", *ports)
        (master,) = wait_for(log, r"Starting Spark master at (spark://\S+)", 1)
        for name in ("one", "two"):
            start(name, f"{deploy}.worker.Worker", *ports, "--cores", "1", "--memory", "1g", master)
        wait_for(log, r"Registering worker (\S+)", 2)
        yield master
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)


def wait_for(log: Path, pattern: str, count: int) -> list[str]:
    """What the pattern has matched so often in a log."""
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        found = re.findall(pattern, log.read_text(errors="replace"))
        if len(found) >= count:
            return found
        time.sleep(0.2)
    raise SystemExit(f"expected {pattern} in {log}:\n{log.read_text()[-2000:]}")


def run(command: list[object], environment: Mapping[str, str]) -> dict[str, object]:
    """What the job says."""
    line = list(map(str, command))
    told = subprocess.run(
        line, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    for each in told.stdout.splitlines():
        if each.startswith("JOB "):
            found: dict[str, object] = json.loads(each.removeprefix("JOB "))
            return found
    said = [each for each in (told.stdout + told.stderr).splitlines() if "Error" in each]
    raise SystemExit("the job failed:\n" + "\n".join(said[-10:] or [told.stderr[-2000:]]))


def report(way: str, found: dict[str, object]) -> None:
    """Say what came of it, or leave if it is not what was promised."""
    print(f"{way}: {found}", flush=True)
    assert found["rows"] == ROWS, f"expected {ROWS} rows"
    assert all("arneb.zip" in str(each) for each in found["found"]), "not from --py-files"  # type: ignore[attr-defined]
    assert int(str(found["workers"])) >= 2, "expected two executors"


if __name__ == "__main__":
    sys.exit(main())
