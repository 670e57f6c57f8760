"""The connection to the data API: what a broker has said is read, whatever came of the request."""

import re
from pathlib import Path

import pytest

from arneb.demo.process import BrokerProcess
from pyspark_arneb.service.connection import Address, ask, close_connections
from pyspark_arneb.service.errors import ServiceError

MIB = 1024 * 1024


@pytest.mark.parametrize("size", [11 * MIB, 40 * MIB])
def test_a_body_that_is_refused_while_it_is_sent_says_why(tmp_path: Path, size: int) -> None:
    """The broker hangs up before it has all of it, which looks like a broker that has gone."""
    stage = {"query": "q", "batch": 0, "stage": "s", "piece": 0}
    with BrokerProcess(tmp_path / "data", listeners=("http",)) as broker:
        address = Address(f"http://{broker.addresses['http']}")
        with pytest.raises(ServiceError) as caught:
            ask(address, "POST", "/stages", parameters=stage, rows=bytes(size))
        close_connections()
    assert caught.value.code == "body_too_large"
    assert re.fullmatch(
        r"expected a body of at most \d+ bytes, and no row is divided \(the broker at .*\)",
        caught.value.reason,
    )
