"""What ``[cluster]`` may contain."""

from pathlib import Path

import pytest

from arneb.settings.config import load_config
from arneb.settings.table import ConfigInvalid

WHOLE = """
[cluster]
node = "n1"
{own}
[cluster.pulsar]
url = "pulsar://127.0.0.1:6650"
admin_url = "http://127.0.0.1:8080"
[cluster.internal]
secret_file = "secret"
"""


def written(path: Path, own: str) -> Path:
    file = path / "arneb.toml"
    file.write_text(WHOLE.format(own=own))
    return file


@pytest.mark.parametrize(
    ("prefer", "priority"), [("[]", 0), ('["n1", "n2"]', 0), ('["n2", "n1"]', 1), ('["n2"]', 1)]
)
def test_a_nodes_priority_is_its_place_among_those_preferred(
    tmp_path: Path, prefer: str, priority: int
) -> None:
    assert load_config(written(tmp_path, f"prefer = {prefer}")).cluster.priority == priority


def test_a_value_that_is_not_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="prefer: expected names of nodes, got 'n 2'"):
        load_config(written(tmp_path, 'prefer = ["n1", "n 2"]'))
