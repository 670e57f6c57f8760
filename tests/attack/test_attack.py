"""Hostile clients at every listener, for a few seconds: others are still served, and memory stays
within its bound.

``make soak-attack`` does the same for minutes, with other seeds.
"""

from collections.abc import Iterator

import pytest
from tests.attack import timed
from tests.attack.running import (
    ATTACKED,
    CONTROL,
    MANAGEMENT,
    AttackedBroker,
    attack,
    settle,
)

SECONDS = 12.0
"""Long enough for each of ten connections to send all it can, and for some to be followed by
another theme."""

SECONDS_OF = {MANAGEMENT: 6.0, CONTROL: 3.0}
"""Shorter where there are fewer themes than connections."""

TIMED_SECONDS = 5.0

ATTEMPTS = 3
"""How often to try if only canaries are late while other programs keep the machine busy."""

SEED = 20_260_101


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedBroker]:
    with AttackedBroker(tmp_path_factory.mktemp("attacked") / "data") as one:
        one.fill()
        yield one


@pytest.mark.alone
@pytest.mark.parametrize("listener", ATTACKED)
def test_hostile_clients_take_their_share_and_no_more(
    broker: AttackedBroker, listener: str
) -> None:
    for _ in range(ATTEMPTS):
        settle(broker)
        found = attack(broker, listener, SECONDS_OF.get(listener, SECONDS), SEED)
        print(found.report())
        if not found.says_nothing:
            break
    assert not found.broken, found.report()


@pytest.mark.alone
@pytest.mark.parametrize("theme", timed.THEMES)
def test_a_client_that_times_what_it_sends_delays_no_other(
    broker: AttackedBroker, theme: str
) -> None:
    listener = timed.THEMES[theme][0]
    if theme == "duplicates":
        broker.deduplicate(timed.AGAIN)
    for _ in range(ATTEMPTS):
        settle(broker)
        found = attack(broker, listener, TIMED_SECONDS, SEED, theme)
        print(found.report())
        if not found.says_nothing:
            break
    assert not found.broken, found.report()
