"""Mutants of time: mistakes when the wall clock is set."""

from typing import Final

from tests.mutants.table import Mutant

CORE: Final = "core/arneb_core/"
MODEL_TESTS: Final = ("tests/core/engine/subscriptions/test_delayed_model.py",)
STAMP_TESTS: Final = ("tests/core/log/test_stamps.py",)
CLOCK_TESTS: Final = ("tests/core/api/process/test_clock.py",)

CLOCK_MUTANTS: Final = (
    Mutant(
        "nobody checks whether the clock was set back",
        CORE + "delayed/index.py",
        "        if now_ms < self._clock_ms:\n",
        "        if now_ms < 0:\n",
        MODEL_TESTS,
    ),
    Mutant(
        "delivered messages are delivered again when the clock was set back",
        CORE + "subscription/entries/delayed_entries.py",
        "        self._out_through = max(self._out_through, self._reached)\n",
        "",
        MODEL_TESTS,
    ),
    Mutant(
        "a clock that was set forward is noticed half a minute late",
        CORE + "engine/scheduling/maintenance.py",
        "ALARM_WAIT_S_MAX: Final = 1.0\n",
        "ALARM_WAIT_S_MAX: Final = 30.0\n",
        MODEL_TESTS,
    ),
    Mutant(
        "stamps go backwards in a log",
        CORE + "engine/group_commit/request.py",
        "        if entries and unpack(entries[0], STAMP_OFFSET)[0] < topic.log.stamped_ms:\n",
        "        if not entries:\n",
        STAMP_TESTS,
    ),
    Mutant(
        "a log that was opened does not know its last stamp",
        CORE + "engine/catalog/catalog.py",
        "            topic.log.stamped_ms = stored.stamped_ms\n",
        "",
        STAMP_TESTS,
    ),
    Mutant(
        "time stands still before 1970",
        CORE + "api/process/clock.py",
        "return EARLIEST_MS + (self._monotonic_ns() - self._started_ns) // 1_000_000",
        "return EARLIEST_MS",
        CLOCK_TESTS,
    ),
    Mutant(
        "a suspended process takes its clients for dead",
        "amqp_frontend/arneb_amqp/server/transport/timers.py",
        "                await trio.sleep(GRACE_S)\n",
        "                pass\n",
        ("tests/amqp_frontend/server/transport/test_timers.py",),
    ),
    Mutant(
        "a suspended process takes its Pulsar clients for dead",
        "pulsar_frontend/arneb_pulsar/session/connection/keep_alive.py",
        "        if now - self.deadline > LATE_S:\n",
        "        if now - self.deadline > 1e9:\n",
        ("tests/pulsar_frontend/session/connection/test_keep_alive.py",),
    ),
)
