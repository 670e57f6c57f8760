"""RabbitMQ's management API of both brokers: the same calls, the same status and shape of answers.

What 3.10.8, which is installed, answers otherwise than 3.13.7 is named in the rows and below.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from conformance.brokers.arneb import Arneb
from conformance.brokers.rabbitmq import RabbitMQ
from conformance.management.calls import CALLS, SETTING_UP, Row
from conformance.management.client import Answer, Client


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    if not RabbitMQ.installed():
        pytest.skip("expected Debian's rabbitmq-server")
    theirs = RabbitMQ(tmp_path_factory.mktemp("rabbitmq"), management=True).start()
    try:
        ours = Arneb(tmp_path_factory.mktemp("arneb"))
        ours.start()
        try:
            yield ours.http_address, theirs.management_address
        finally:
            ours.stop()
    finally:
        theirs.stop()


def played(address: Any, row: Row) -> Answer:
    password = "guest" if row.user == "guest" else "p"
    return Client(address, row.user, password).call(row.method, row.path, row.body, row.headers)


def test_every_call_has_the_same_status_on_both(brokers: tuple[Any, Any]) -> None:
    ours, theirs = brokers
    different = []
    for row in (*SETTING_UP, *CALLS):
        got, wanted = played(ours, row), played(theirs, row)
        if got.status != wanted.status and not row.differs:
            different.append((row.method, row.path, row.user, got.status, wanted.status))
        if got.status == wanted.status == 200 and isinstance(wanted.json, dict):
            assert isinstance(got.json, dict), row
        if got.status == wanted.status and 400 <= got.status < 500 and wanted.json:
            assert got.json["error"] == wanted.json["error"], row
        assert got.headers.get("location") is None or "/" in got.headers["location"], row
    assert not different
