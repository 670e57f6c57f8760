"""Options: how much broken input to send, and from which seed."""

import random

import pytest

FRAMES = 10_000


@pytest.fixture
def frames(request: pytest.FixtureRequest) -> int:
    """How many pieces of broken input to send to each port."""
    count: int | None = request.config.getoption("frames", default=None)
    return count or FRAMES


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed; the tests print it, so that a failure can be repeated."""
    given: int | None = request.config.getoption("seed", default=None)
    return random.SystemRandom().randrange(10**6) if given is None else given
