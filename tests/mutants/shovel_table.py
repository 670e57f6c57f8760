"""Mutants of shovels, and of the client that they use.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

SHOVELS: Final = "amqp_frontend/arneb_amqp/shovels/"
CLIENT: Final = "amqp_frontend/arneb_amqp/client/"
SHOVEL_TESTS: Final = ("tests/broker/test_shovels.py",)
REMOTE_TESTS: Final = ("tests/amqp_frontend/shovels/test_remote.py",)
SESSION_TESTS: Final = ("tests/amqp_frontend/client/test_session.py",)

SHOVEL_MUTANTS: Final = (
    Mutant(
        "a source loses what the destination has not confirmed",
        SHOVELS + "remote.py",
        "        refused = await self._channel.confirmed()\n",
        "        refused: set[int] = set()\n",
        REMOTE_TESTS,
    ),
    Mutant(
        "a source never learns that its messages were taken",
        SHOVELS + "remote.py",
        "            await self._channel.say(make(Basic.Ack, delivery_tag=last, multiple=True))\n",
        "",
        REMOTE_TESTS,
    ),
    Mutant(
        "moves inside the broker remove their messages in a separate commit",
        SHOVELS + "shovel.py",
        "            return await destination.move(changed, source)\n",
        "            await source.acknowledge(batch, set())\n"
        "            return await destination.move(changed, None)\n",
        SHOVEL_TESTS,
    ),
    Mutant(
        "what a full queue refuses is lost",
        SHOVELS + "local.py",
        "        positions, masks = _positions_of(batch, refused)\n"
        "        if self.attachment is not None and self._acks:\n"
        "            unit.acks",
        "        positions, masks = _positions_of(batch, set())\n"
        "        if self.attachment is not None and self._acks:\n"
        "            unit.acks",
        SHOVEL_TESTS,
    ),
    Mutant(
        "a finished shovel stays",
        SHOVELS + "shovels.py",
        "            if is_done:\n",
        "            if False:\n",
        SHOVEL_TESTS,
    ),
    Mutant(
        "a shovel moves more than it was told to",
        SHOVELS + "shovel.py",
        "min(BATCH_MAX, self._left)",
        "BATCH_MAX",
        SHOVEL_TESTS,
    ),
    Mutant(
        "a failed shovel is not retried",
        SHOVELS + "shovel.py",
        "            if not self.settings.reconnect_s:\n",
        "            if True:\n",
        SHOVEL_TESTS,
    ),
    Mutant(
        "anybody who reads parameters sees the passwords of shovels",
        SHOVELS + "settings.py",
        "    shown = dict(value)\n",
        "    return value\n    shown = dict(value)\n",
        SHOVEL_TESTS,
    ),
    Mutant(
        "a status shows the password",
        CLIENT + "uris.py",
        'f"{parts.scheme}://{shown_host}{shown_port}{parts.path}",',
        'f"{parts.scheme}://{parts.netloc}{parts.path}",',
        ("tests/amqp_frontend/client/test_uris.py",),
    ),
    Mutant(
        "a silent broker is waited for forever",
        CLIENT + "session.py",
        "        if self._heartbeat_s and now >= self._heard + BEATS_MISSED * self._heartbeat_s:\n",
        "        if False:\n",
        SESSION_TESTS,
    ),
    Mutant(
        "a refusal counts as a confirm",
        CLIENT + "session.py",
        "bool(method.multiple), stored=False)",
        "bool(method.multiple), stored=True)",
        SESSION_TESTS,
    ),
    Mutant(
        "only a part of one read is handled",
        CLIENT + "session.py",
        "            if not self._reader.has_more:\n                break\n",
        "            break\n",
        SESSION_TESTS,
    ),
    Mutant(
        "a broker may offer frames without room for a body",
        "amqp_frontend/arneb_amqp/client/session.py",
        "        if offered < FRAME_BYTES_MIN:\n",
        "        if False:\n",
        ("tests/amqp_frontend/client/test_session.py",),
    ),
)
