"""What a session is told on each kind of master."""

import pytest

from pyspark_arneb.guest import cores
from pyspark_arneb.pipeline.session import DRAWN, QUIET, SHUFFLED_A_CORE, settings_on

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
