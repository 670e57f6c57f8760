"""A session: the Spark that a job runs on, started for a command and stopped with it.

The rule: an error is one line that names what to change, never only Java's message. A master is
what ``spark-submit --master`` accepts, or the ``sc://`` address of a Spark Connect server; wherever
it is, its executors run the code of the command (:mod:`.own_code`).
"""

import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from pyspark_arneb.pipeline.own_code import archive
from pyspark_arneb.processors import cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
CONNECT: Final = "sc://"

MASTER: Final = re.compile(
    r"local(\[(\*|\d+)(,\s*\d+)?\])?|(spark|sc|k8s)://\S+|yarn|local-cluster\[[\d,\s]+\]"
)
"""The forms of masters that Spark 4 accepts."""

ADDRESSED: Final = re.compile(r"(?:spark|sc)://(?P<at>[^/;]+).*")
"""Masters with an address; a standalone cluster may have several."""
CONNECT_PORT: Final = 15_002
"""Spark Connect's port, where an address has none."""
PORT_MAX: Final = 65_535
CONNECT_S: Final = 10.0
"""Seconds after which a machine that does not answer counts as unreachable."""

HERE: Final = re.compile(r"local(?:\[(\*|\d+).*\])?")
"""Masters on this machine, with their cores: one if not given."""


class JobFailed(Exception):
    """A job cannot run, or failed; the message is one line for its user."""


@contextmanager
def spark_session(
    name: str, master: str = LOCAL, conf: Mapping[str, str] | None = None
) -> Iterator["SparkSession"]:
    """Run the block with a session on ``master``; Spark's errors in it are raised as
    :class:`JobFailed`."""
    session = _made(name, master, conf or {})
    from pyspark.errors import PySparkException

    try:
        with TemporaryDirectory(prefix="arneb-code-") as scratch:
            if not is_here(master):
                _hand_out(session, master, archive(Path(scratch)))
            yield session
    except JobFailed:
        raise
    except PySparkException as error:
        raise JobFailed(in_one_line(error)) from error
    except Exception as error:
        if type(error).__module__.startswith("py4j."):
            raise JobFailed(in_one_line(error)) from error
        raise
    finally:
        session.stop()


def _made(name: str, master: str, conf: Mapping[str, str]) -> "SparkSession":
    if not MASTER.fullmatch(master):
        expected = "local[N], spark://HOST:PORT, yarn, k8s://HOST or sc://HOST:PORT"
        raise JobFailed(f"--master: expected {expected}, got {master!r}")
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise JobFailed(f"Spark is not installed ({error}): pip install 'arneb[spark]'") from None
    expect_somebody(master)
    _set_up(master)
    try:
        builder = SparkSession.builder.appName(name)
        builder = builder.remote(master) if is_remote(master) else builder.master(master)
        for key, value in {**settings_on(master), **conf}.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
    except Exception as error:
        raise JobFailed(f"--master: cannot use {master}: {in_one_line(error)}") from error


def expect_somebody(master: str) -> None:
    """Raise :class:`JobFailed` if nothing listens there: Spark itself would retry for ten
    minutes."""
    found = ADDRESSED.fullmatch(master)
    problem: OSError | None = None
    for each in found["at"].split(",") if found else ():
        if ":" not in each and is_remote(master):
            each = f"{each}:{CONNECT_PORT}"
        host, _, port = each.rpartition(":")
        # Spark reports other errors in it.
        if not host or not port.isdecimal() or int(port) > PORT_MAX:
            return
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S):
                return
        except OSError as error:
            problem = error
    if problem is not None:
        reason = problem.strerror or "it does not answer"
        raise JobFailed(f"--master: cannot use {master}: {reason}") from problem


def _hand_out(session: "SparkSession", master: str, code: Path) -> None:
    """Make the executors import arneb from ``code``."""
    from pyspark_arneb.source import DefaultSource

    if is_remote(master):
        session.addArtifacts(str(code), pyfile=True)
    else:
        session.sparkContext.addPyFile(str(code))
    # Spark finds sources by itself only in the Python installation of its workers.
    session.dataSource.register(DefaultSource)


def _set_up(master: str) -> None:
    """Set Spark's environment variables, unless the user has set them."""
    # Otherwise Spark starts its workers as "python3", which may lack all of this.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark_conf"))


DRAWN: Final = {"spark.ui.showConsoleProgress": "false"}
"""The commands draw progress themselves."""

QUIET: Final = DRAWN | {"spark.log.level": "FATAL"}
"""Settings that show that Spark's logging is configured elsewhere; Spark reports that they are
set."""

SHUFFLED_A_CORE: Final = 4
"""Partitions of a shuffle on one machine. Spark's 200 are for clusters: each costs some 20 ms, and
an audit shuffles often."""


def is_remote(master: str) -> bool:
    """Return whether it is a server of Spark Connect, which has settings of its own."""
    return master.startswith(CONNECT)


def is_here(master: str) -> bool:
    """Return whether the executors run on this machine's Python."""
    return HERE.fullmatch(master) is not None


def settings_on(master: str) -> dict[str, str]:
    """Return the default settings of a session on ``master``."""
    if is_remote(master):
        return {}
    here = HERE.fullmatch(master)
    if here is None:
        return QUIET
    own = cores() if here[1] == "*" else int(here[1] or 1)
    return DRAWN | {"spark.sql.shuffle.partitions": str(SHUFFLED_A_CORE * own)}


_PYTHON: Final = re.compile(
    r"^(?:[A-Za-z_][\w.]*\.)?"
    r"(?P<kind>[A-Z]\w*(?:Error|Exception|Unusable|Failed|Invalid|Directory)): (?P<text>.+)$",
    re.MULTILINE,
)
"""The last line of a Python traceback, wherever Java has put it."""

SPARKS_OWN: Final = frozenset({"PythonException", "Py4JJavaError", "SparkException"})


def in_one_line(error: BaseException) -> str:
    """Return the error without Java's and Python's stack traces."""
    text = str(error)
    raised = [each for each in _PYTHON.finditer(text) if each["kind"] not in SPARKS_OWN]
    if raised:
        return raised[-1]["text"].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [each for each in lines if not each.startswith(("at ", "JVM stacktrace", "Traceback"))]
    return lines[0] if lines else type(error).__name__
