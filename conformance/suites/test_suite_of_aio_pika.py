"""The own integration tests of aio-pika: by themselves, for they take as long as all others and
nearly always wait, so that a lane of ``make conformance`` is theirs."""

from conformance.conftest import Target
from conformance.suites.test_suites import aio_pika


def test_own_suite_of_aio_pika(secured_broker: Target) -> None:
    print(aio_pika(secured_broker)[-500:])
