"""Mutants of decompression: mistakes with deliveries that are decompressed before they are sent."""

from typing import Final

from tests.mutants.table import Mutant

TESTS: Final = ("tests/amqp_frontend/server/test_decompression.py",)
COMPRESSED_RUNS: Final = "amqp_frontend/arneb_amqp/session/compressed_runs.py"
OPERATIONS: Final = "amqp_frontend/arneb_amqp/server/operations/"

DECOMPRESSION_MUTANTS: Final = (
    Mutant(
        "what is compressed is decompressed in the event loop",
        COMPRESSED_RUNS,
        "channel in self._channels or sum(decompressed_sizes(run.entries)) > IN_A_TURN",
        "channel in self._channels",
        TESTS,
    ),
    Mutant(
        "deliveries overtake one that is being decompressed",
        COMPRESSED_RUNS,
        "channel in self._channels or sum(decompressed_sizes(run.entries)) > IN_A_TURN",
        "sum(decompressed_sizes(run.entries)) > IN_A_TURN",
        TESTS,
    ),
    Mutant(
        "everything is decompressed however slowly the client reads",
        OPERATIONS + "decompressor.py",
        "                    await self._room()\n",
        "                    await trio.lowlevel.checkpoint()\n",
        TESTS,
    ),
    Mutant(
        "what a cancelled consumer was given and is being decompressed is lost",
        OPERATIONS + "effects.py",
        "isinstance(effect, Cancel) and self._session.output.compressed",
        "isinstance(effect, Cancel) and False",
        TESTS,
    ),
    Mutant(
        "a consumer that is about to be cancelled is given more",
        OPERATIONS + "consumers.py",
        "            attachment.consumer.retire()\n",
        "            attachment.consumer.wake()\n",
        TESTS,
    ),
)
