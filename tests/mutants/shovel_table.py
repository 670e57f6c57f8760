"""The mutant list, continued: mistakes of shovels, and of the client that they use.

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
        "a source gives up what the destination has not confirmed",
        SHOVELS + "remote.py",
        "        refused = await self._channel.confirmed()\n",
        "        refused: set[int] = set()\n",
        REMOTE_TESTS,
    ),
    Mutant(
        "a source never hears that its messages were taken",
        SHOVELS + "remote.py",
        "            await self._channel.say(make(Basic.Ack, delivery_tag=last, multiple=True))\n",
        "",
        REMOTE_TESTS,
    ),
    Mutant(
        "what moves inside the broker is given up in a commit of its own",
        SHOVELS + "shovel.py",
        "            return await destination.move(changed, source)\n",
        "            await source.settle(batch, set())\n"
        "            return await destination.move(changed, None)\n",
        SHOVEL_TESTS,
    ),
    Mutant(
        "what a full queue refuses is given up",
        SHOVELS + "local.py",
        "        positions, masks = _places(batch, refused)\n"
        "        if self.attachment is not None and self._acks:\n"
        "            unit.acks",
        "        positions, masks = _places(batch, set())\n"
        "        if self.attachment is not None and self._acks:\n"
        "            unit.acks",
        SHOVEL_TESTS,
    ),
    Mutant(
        "a shovel that is done stays",
        SHOVELS + "shovels.py",
        "            if is_done:\n",
        "            if False:\n",
        SHOVEL_TESTS,
    ),
    Mutant(
        "a shovel moves more than it was to",
        SHOVELS + "shovel.py",
        "min(BATCH_MAX, self._left)",
        "BATCH_MAX",
        SHOVEL_TESTS,
    ),
    Mutant(
        "a shovel that failed is not tried again",
        SHOVELS + "shovel.py",
        "            if not self.settings.reconnect_s:\n",
        "            if True:\n",
        SHOVEL_TESTS,
    ),
    Mutant(
        "whoever looks at parameters sees the passwords of shovels",
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
        "a broker that says nothing is waited for for ever",
        CLIENT + "session.py",
        "        if self._heartbeat_s and now >= self._heard + BEATS_MISSED * self._heartbeat_s:\n",
        "        if False:\n",
        SESSION_TESTS,
    ),
    Mutant(
        "a refusal is taken for a confirm",
        CLIENT + "session.py",
        "bool(method.multiple), stored=False)",
        "bool(method.multiple), stored=True)",
        SESSION_TESTS,
    ),
    Mutant(
        "what comes in one read is looked at in part",
        CLIENT + "session.py",
        "            if not self._reader.has_more:\n                break\n",
        "            break\n",
        SESSION_TESTS,
    ),
)
