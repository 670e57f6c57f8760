"""The tables of the Spark guide say what the connector's own tables say."""

from importlib.util import find_spec

import pytest

if find_spec("pyspark") is None:
    pytest.skip("needs the extra 'spark'", allow_module_level=True)

from docs import spark_page


def test_the_tables_are_what_the_code_says() -> None:
    written = spark_page.PAGE.read_text(encoding="utf-8")
    assert written == spark_page.page(), "run python docs/spark_page.py"


def test_every_column_is_described() -> None:
    for row in spark_page.columns_table().splitlines()[2:]:
        assert len(row.split(" | ")[2]) > 5, f"expected what the column holds: {row}"
