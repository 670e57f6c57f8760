"""Programs that use Pulsar's clients in other languages, run against Apache Pulsar and Arneb."""

from collections.abc import Callable
from typing import Final

import pytest
from conformance.pulsar.clients.programs import (
    HERE,
    RUN_WITHIN_S,
    built_in_go,
    built_in_java,
    built_in_javascript,
)
from conformance.toolbox import finished

PROGRAMS: Final[dict[str, Callable[[], list[str]]]] = {
    "java": lambda: built_in_java("Scenarios"),
    "go": built_in_go,
    "javascript": built_in_javascript,
}


@pytest.mark.parametrize("client", PROGRAMS)
def test_everyday_and_edge_scenarios(client: str, pulsar_url: str) -> None:
    print(finished([*PROGRAMS[client](), pulsar_url], HERE, RUN_WITHIN_S))


def test_transactions_of_the_client_in_java(transacting_url: str) -> None:
    print(finished([*built_in_java("Transactions"), transacting_url], HERE, RUN_WITHIN_S))


LEAKING = tuple(f"transactions: {each}" for each in ("aborted", "two at a time", "its time is up"))
"""The Go client does not write the transaction into a message's metadata. Apache Pulsar needs it
there to recognise aborted messages, and so delivers them (apache/pulsar-client-go, issue 1498).
Arneb uses the transaction in the SEND command."""


def test_transactions_of_the_client_in_go(
    transacting_url: str, request: pytest.FixtureRequest
) -> None:
    left_out = LEAKING if request.node.callspec.params["transacting_url"] == "pulsar" else ()
    command = [*built_in_go(), transacting_url, "transactions", *left_out]
    print(finished(command, HERE, RUN_WITHIN_S))
