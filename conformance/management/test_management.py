"""RabbitMQ's management API on both brokers: the same calls, with the same status and shape of
answers.

Where the installed 3.10.8 answers differently from 3.13.7, the rows or the code below say so.
"""

from conformance.brokers.process import Address
from conformance.management.calls import CALLS, SETTING_UP, Row
from conformance.management.client import Answer, Client
from conformance.management.conftest import Managed


def played(address: Address, row: Row) -> Answer:
    password = "guest" if row.user == "guest" else "p"
    return Client(address, row.user, password).call(row.method, row.path, row.body, row.headers)


def test_every_call_has_the_same_status_on_both(pair: tuple[Managed, Managed]) -> None:
    ours, theirs = (each.http for each in pair)
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
