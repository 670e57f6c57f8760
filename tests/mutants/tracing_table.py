"""The mutant list, continued: mistakes of who looks on.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

AMQP: Final = "amqp_frontend/arneb_amqp/"
TRACING_TESTS: Final = ("tests/amqp_frontend/server/test_tracing.py",)

TRACING_MUTANTS: Final = (
    Mutant(
        "copies are copied",
        AMQP + "topology/tracing.py",
        "        if exchange == TRACE:\n            return\n",
        "",
        TRACING_TESTS,
    ),
    Mutant(
        "what nobody takes is not seen",
        AMQP + "session/publish/publisher.py",
        "        elif self._vhost.is_traced and entries[0]:\n",
        "        elif False:\n",
        TRACING_TESTS,
    ),
    Mutant(
        "tracing cannot be switched off",
        AMQP + "topology/topology.py",
        "self.tracing = None if node is None else self._new_tracing(node)",
        'self.tracing = self._new_tracing(node or "")',
        TRACING_TESTS,
    ),
    Mutant(
        "a consumer is seen on another channel",
        AMQP + "session/consume/deliverer.py",
        "exclusive, arguments, windows, self.channel)",
        "exclusive, arguments, windows)",
        TRACING_TESTS,
    ),
)
