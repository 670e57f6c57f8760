"""What a session is told on each kind of master."""

import socket

import pytest

from pyspark_arneb.pipeline.session import (
    DRAWN,
    QUIET,
    SHUFFLED_A_CORE,
    JobFailed,
    expect_somebody,
    in_one_line,
    settings_on,
)
from pyspark_arneb.processors import cores

SHUFFLED = "spark.sql.shuffle.partitions"


@pytest.mark.parametrize(
    ("master", "own"), [("local[*]", cores()), ("local[3]", 3), ("local[2, 4]", 2), ("local", 1)]
)
def test_on_one_machine_a_shuffle_has_no_more_parts_than_that_needs(master: str, own: int) -> None:
    assert settings_on(master) == DRAWN | {SHUFFLED: str(SHUFFLED_A_CORE * own)}


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "local-cluster[2,1,1024]"])
def test_a_cluster_shuffles_as_it_does(master: str) -> None:
    assert settings_on(master) == QUIET


def test_a_server_of_spark_connect_has_settings_of_its_own() -> None:
    assert settings_on("sc://host:15002") == {}


@pytest.fixture
def closed_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


@pytest.mark.parametrize(
    "form", ["sc://127.0.0.1:{}", "sc://127.0.0.1:{}/;token=a", "spark://127.0.0.1:{}"]
)
def test_a_master_at_which_nobody_listens_is_refused_at_once(form: str, closed_port: int) -> None:
    with pytest.raises(JobFailed, match="^--master: cannot use .*: Connection refused$"):
        expect_somebody(form.format(closed_port))


def test_one_of_several_masters_is_enough(closed_port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        expect_somebody(f"spark://127.0.0.1:{closed_port},127.0.0.1:{port}")
    for master in (
        "local[*]",
        "yarn",
        "spark://host",
        "spark://host:99999",
        "local-cluster[2,1,1024]",
    ):
        expect_somebody(master)


def test_what_python_raised_is_found_among_what_java_says() -> None:
    foreign = "/srv/data.mdb is not an Arneb store"
    text = f"[X] Failed: Traceback (most recent):\n  x\na.ForeignDirectory: {foreign}\n\tat x"
    assert in_one_line(RuntimeError(text)) == foreign
