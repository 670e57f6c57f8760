"""What one client may make the broker hold, and who may come in."""

from typing import Final

from tests.mutants.table import Mutant

PULSAR: Final = "pulsar_frontend/arneb_pulsar/"
AMQP: Final = "amqp_frontend/arneb_amqp/"
ROOM_TESTS: Final = ("tests/pulsar_frontend/server/test_room.py",)

DOOR_MUTANTS: Final = (
    Mutant(
        "all requests of a read are answered, room or not",
        PULSAR + "server/peer.py",
        "            self._perform(self._session.go_on(trio.current_time(), clock_ms()))\n"
        "            self._outbox.wake()\n"
        "            if self._must_pause():\n",
        "            self._perform(self._session.go_on(trio.current_time(), clock_ms()))\n"
        "            self._outbox.wake()\n"
        "            if False:\n",
        ROOM_TESTS,
    ),
    Mutant(
        "lists are made without room for them",
        PULSAR + "server/listings.py",
        "            await self._peer.room()\n            pattern = effect.pattern\n",
        "            pattern = effect.pattern\n",
        ROOM_TESTS,
    ),
    Mutant(
        "messages are got whether their client reads or not",
        AMQP + "server/carrier.py",
        "                            await self._connection.room()\n",
        "                            pass\n",
        ("tests/amqp_frontend/server/test_room.py",),
    ),
)
