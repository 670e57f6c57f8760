"""Hundreds of connections that are all busy at once: a pass over all of them stays short."""

from collections.abc import Callable

import pytest
from tests.attack.busy import Found, attack, publish

CONNECTIONS = 400
PASS_P999_MS = 50.0
"""In CPU time. Without a limit, one pass in a few hundred takes as long as all turns of the
connections together."""


@pytest.mark.alone
@pytest.mark.parametrize("load", [attack, publish])
def test_a_pass_over_hundreds_of_busy_connections_is_short(load: Callable[[int], Found]) -> None:
    found = load(CONNECTIONS)
    print(found.passes, found.pings_s[-5:])
    assert found.passes["p999_ms"] <= PASS_P999_MS, found.passes
