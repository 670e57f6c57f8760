"""The metrics name the reader that keeps the store's pages from being reused."""

from dataclasses import replace

import pytest
from tests.broker.conftest import FakeCore

from arneb.metrics.single_figures import single_figures
from arneb.settings.config import StoreTable
from arneb_core.api.statistics import LongReader


def test_a_long_reader_is_a_row_with_its_process() -> None:
    engine = replace(FakeCore().statistics(), long_readers=(LongReader(4711, 12, 90.5, 1 << 20),))
    page = single_figures(engine, 0)
    assert 'arneb_store_reader_age_s{pid="4711",transaction="12"} 90.5' in page
    assert 'arneb_store_reader_held_bytes{pid="4711",transaction="12"} 1.048576e+06' in page


@pytest.mark.parametrize("seconds", [0, -1, 86_401])
def test_an_invalid_limit_for_readers_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="expected reader_limit_s from 1 to 86400"):
        StoreTable(reader_limit_s=seconds)
