"""Every command of ``pulsar-admin`` has the same outcome on Arneb as on Apache Pulsar, or a known
reason why not."""

from collections import Counter
from pathlib import Path

import pytest
from conformance.brokers.arneb import Arneb
from conformance.brokers.pulsar_standalone import PulsarStandalone
from conformance.pulsar.commands.comparison import Outcome
from conformance.pulsar.commands.playing import SETTINGS, SETTLES_S, play, table
from conformance.pulsar.commands.script import NOT_PLAYED, script
from conformance.pulsar.commands.tool import pulsar_admin


@pytest.fixture(scope="module")
def arneb(tmp_path_factory: pytest.TempPathFactory) -> Arneb:
    listeners = ["pulsar", "http-pulsar"]
    return Arneb(tmp_path_factory.mktemp("arneb"), listeners=listeners).start()


def test_the_script_has_every_command_that_there_is(arneb: Arneb) -> None:
    with pulsar_admin(arneb.admin_url) as admin:
        there = set(admin.names())
    played = {" ".join(line.split()[:2]) for line in script()}
    assert len(there) > 500
    assert there - played == NOT_PLAYED.keys()


def test_no_command_is_different_without_a_reason(arneb: Arneb, tmp_path: Path) -> None:
    try:
        played = play(arneb.admin_url, arneb.pulsar_url, tmp_path)
    finally:
        arneb.stop()
    apache = PulsarStandalone(tmp_path / "pulsar", **SETTINGS).start()
    try:
        lines = table(play(apache.http_url, apache.pulsar_url, tmp_path, SETTLES_S), played)
    finally:
        apache.stop()
    print(Counter(line.outcome.value for line in lines))
    assert not [each for each in lines if each.outcome in (Outcome.OTHER, Outcome.MISSING)]
