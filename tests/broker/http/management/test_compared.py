"""Every route of the management API is compared with RabbitMQ's by the sweep in ``conformance``."""

from conformance.management.sweep import CHANGES, PATHS

from arneb.http.management.table import ROUTER

PAGE = "page/"
"""What the page requests besides, which RabbitMQ does not have."""

SERVED = {(route.method, route.path) for route in ROUTER.routes if not route.path.startswith(PAGE)}
COMPARED = {(method, path.path) for path in PATHS for method in path.methods.split()} | CHANGES

NOT_SERVED = {
    ("DELETE", "auth/attempts/:node"),
    ("DELETE", "auth/attempts/:node/source"),
}
"""With this, RabbitMQ resets its counters."""


def test_every_method_of_every_route_is_compared() -> None:
    assert sorted(SERVED - COMPARED) == []


def test_everything_compared_is_served() -> None:
    assert COMPARED - SERVED == NOT_SERVED


def test_a_path_is_in_the_sweep_once() -> None:
    assert len({path.path for path in PATHS}) == len(PATHS)
