"""Mutants of opening: mistakes with deliveries that must be unpacked before they are sent."""

from typing import Final

from tests.mutants.table import Mutant

TESTS: Final = ("tests/amqp_frontend/server/test_opening.py",)
UNOPENED: Final = "amqp_frontend/arneb_amqp/session/unopened.py"
OPERATIONS: Final = "amqp_frontend/arneb_amqp/server/operations/"

OPENING_MUTANTS: Final = (
    Mutant(
        "what is compressed is unpacked in the event loop",
        UNOPENED,
        "channel in self._channels or sum(unpacked_sizes(run.entries)) > IN_A_TURN",
        "channel in self._channels",
        TESTS,
    ),
    Mutant(
        "deliveries overtake one that is being unpacked",
        UNOPENED,
        "channel in self._channels or sum(unpacked_sizes(run.entries)) > IN_A_TURN",
        "sum(unpacked_sizes(run.entries)) > IN_A_TURN",
        TESTS,
    ),
    Mutant(
        "everything is unpacked however slowly the client reads",
        OPERATIONS + "opener.py",
        "                    await self._room()\n",
        "                    await trio.lowlevel.checkpoint()\n",
        TESTS,
    ),
    Mutant(
        "what a cancelled consumer was given and is being unpacked is lost",
        OPERATIONS + "effects.py",
        "isinstance(effect, Cancel) and self._session.output.unopened",
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
