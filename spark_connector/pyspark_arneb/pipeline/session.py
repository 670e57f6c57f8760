"""A session: the Spark that a job runs on, made for a command and ended with it.

The rule: what goes wrong is one line that names what to change, and never only what Java says. A
master is what ``spark-submit --master`` takes, or the ``sc://`` address of a Spark Connect server.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark_arneb.guest import cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
CONNECT: Final = "sc://"

MASTER: Final = re.compile(
    r"local(\[(\*|\d+)(,\s*\d+)?\])?|(spark|sc|k8s)://\S+|yarn|local-cluster\[[\d,\s]+\]"
)
"""Every form that Spark 4 knows."""

HERE: Final = re.compile(r"local(?:\[(\*|\d+).*\])?")
"""Those on this machine, with their cores: one if they say nothing."""


class JobFailed(Exception):
    """A job cannot be done, or was not; the message is one line for whoever asked for it."""


@contextmanager
def spark_session(
    name: str, master: str = LOCAL, conf: Mapping[str, str] | None = None
) -> Iterator["SparkSession"]:
    """A session on ``master`` while the block lasts; what Spark raises in it comes out as
    :class:`JobFailed`."""
    if not MASTER.fullmatch(master):
        expected = "local[N], spark://HOST:PORT, yarn, k8s://HOST or sc://HOST:PORT"
        raise JobFailed(f"--master: expected {expected}, got {master!r}")
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise JobFailed(f"Spark is not installed ({error}): pip install 'arneb[spark]'") from None
    _set_up(master)
    try:
        builder = SparkSession.builder.appName(name)
        builder = builder.remote(master) if is_remote(master) else builder.master(master)
        for key, value in {**settings_on(master), **(conf or {})}.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    except Exception as error:
        raise JobFailed(f"--master: cannot use {master}: {in_one_line(error)}") from error
    try:
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


def _set_up(master: str) -> None:
    """What Spark takes from the environment, unless the user has said it."""
    # Else Spark starts its workers as "python3", which need not have any of this.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark_conf"))


DRAWN: Final = {"spark.ui.showConsoleProgress": "false"}
"""The commands draw progress themselves."""

QUIET: Final = DRAWN | {"spark.log.level": "FATAL"}
"""Where Spark's own logging is set up by somebody else; Spark says that it is set so."""

SHUFFLED_A_CORE: Final = 4
"""Partitions of a shuffle on one machine. Spark's 200 are for clusters: each costs some 20 ms, and
an audit shuffles often."""


def is_remote(master: str) -> bool:
    """It is a server of Spark Connect, which has settings of its own."""
    return master.startswith(CONNECT)


def settings_on(master: str) -> dict[str, str]:
    """What a session is told there, unless the user says otherwise."""
    if is_remote(master):
        return {}
    here = HERE.fullmatch(master)
    if here is None:
        return QUIET
    own = cores() if here[1] == "*" else int(here[1] or 1)
    return DRAWN | {"spark.sql.shuffle.partitions": str(SHUFFLED_A_CORE * own)}


_PYTHON: Final = re.compile(
    r"^(?:[A-Za-z_][\w.]*\.)?(?P<kind>[A-Z]\w*(?:Error|Exception|Unusable|Failed|Invalid)): "
    r"(?P<text>.+)$",
    re.MULTILINE,
)
"""The last line of a Python traceback, wherever Java has put it."""

SPARKS_OWN: Final = frozenset({"PythonException", "Py4JJavaError", "SparkException"})


def in_one_line(error: BaseException) -> str:
    """What happened, without Java's stack and Python's."""
    text = str(error)
    raised = [each for each in _PYTHON.finditer(text) if each["kind"] not in SPARKS_OWN]
    if raised:
        return raised[-1]["text"].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [each for each in lines if not each.startswith(("at ", "JVM stacktrace", "Traceback"))]
    return lines[0] if lines else type(error).__name__
