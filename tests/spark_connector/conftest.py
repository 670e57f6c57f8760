"""What the connector's tests share: the generator on the path, and one Spark session for all.

Without pyspark and pyarrow (the extra ``spark``) these tests are left out, and those of the sealed
tier without what it needs (the extra ``lake``), and it is said so.
"""

import gc
import logging
import os
import socket
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

import pytest

collect_ignore_glob: list[str] = []
if not all(map(find_spec, ("pyspark", "pyarrow"))):
    collect_ignore_glob += ["test_*.py", "*/test_*.py"]
elif not all(map(find_spec, ("deltalake", "duckdb"))):
    collect_ignore_glob.append("test_lake*.py")
if find_spec("pyspark"):
    from pyspark.logger import PySparkLogger

    # PySpark's gives each handler that it gets a formatter of its own, pytest's among them, and so
    # changes what all tests after it see of the log.
    PySparkLogger.addHandler = logging.Logger.addHandler  # type: ignore[method-assign]

sys.path.insert(0, str(Path(__file__).parent))

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOTS = ("core", "amqp_frontend", "pulsar_frontend", "spark_connector", "broker")
REPOSITORY = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent


NOT_OURS: Final = (
    # Spark's own sockets are closed by the garbage collector, in whatever test is running then.
    "ignore::ResourceWarning",
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
    "ignore::UserWarning:pyspark",
)
"""What libraries warn of that nobody here can mend."""


NOT_CONNECTED: Final = "Python worker failed to connect back"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Warnings of Spark are no errors of the tests that use it."""
    for item in items:
        if HERE in item.path.parents:
            for each in NOT_OURS:
                item.add_marker(pytest.mark.filterwarnings(each))
            # A JVM gives its Python workers ten seconds to connect, and no setting changes that.
            # Where many others have the processors, that is too short.
            item.add_marker(pytest.mark.flaky(reruns=2, only_rerun=NOT_CONNECTED))


def pytest_report_collectionfinish() -> list[str]:
    """Say what is left out."""
    if not collect_ignore_glob:
        return []
    extra = "spark" if "test_*.py" in collect_ignore_glob else "lake"
    left_out = ", ".join(collect_ignore_glob)
    return [f"tests/spark_connector: {left_out} left out: install the extra '{extra}'"]


@pytest.fixture(autouse=True)
def no_guest(monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads in the process of the tests is no guest: stepping back could not be undone, and
    the tests after it would run as nice. Spark's own workers are other processes."""
    monkeypatch.setattr("pyspark_arneb.batch.guest", lambda _niceness: nullcontext(lambda: None))


@pytest.fixture(scope="package", autouse=True)
def nothing_stays_open() -> Iterator[None]:
    """See :func:`closing_what_is_left`."""
    with closing_what_is_left():
        yield


@contextmanager
def closing_what_is_left() -> Iterator[None]:
    """Close what PySpark leaves open: the sockets by which results come are closed only when the
    garbage collector comes by, and the test that runs then would be warned of them. Sockets that
    were there before are left alone: they belong to fixtures that live longer."""
    before = WeakSet(open_sockets())
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
        for each in open_sockets():
            if each not in before:
                # Not close(), which waits for whoever has made a file of it.
                os.close(each.detach())


def open_sockets() -> list[socket.socket]:
    """Return the sockets of this process that are connected to others by TCP, or could be."""
    return [
        each
        for each in gc.get_objects()
        if issubclass(type(each), socket.socket)
        and each.fileno() >= 0
        and each.family in (socket.AF_INET, socket.AF_INET6)
    ]


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """One local session; starting it costs more than all queries of these tests."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    scratch = tmp_path_factory.mktemp("spark")
    # Spark's Python workers are new processes: they must find the same packages.
    paths = [str(REPOSITORY / root) for root in ROOTS]
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings: dict[str, Any] = {
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": 2,
        # Queries of a few rows: compiling them well costs far more than running them.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.codegen.wholeStage": False,
        "spark.sql.adaptive.enabled": False,
    }
    builder = SparkSession.builder.master("local[2]").appName("arneb tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    gateway: Any = SparkContext._gateway
    session.stop()
    # The JVM would stay, with its memory, until the garbage collector comes by.
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=60)
    SparkContext._gateway = SparkContext._jvm = None
