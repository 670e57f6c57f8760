"""The integration tests of aio-pika itself. They have a module of their own because they take as
long as all other suites and mostly wait, so they are a separate lane of ``make conformance``."""

from conformance.conftest import Target
from conformance.suites.test_suites import aio_pika


def test_own_suite_of_aio_pika(secured_broker: Target) -> None:
    print(aio_pika(secured_broker)[-500:])
