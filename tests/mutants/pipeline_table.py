"""Mutants of histories, and of the pipeline that reads them.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import CORE, Mutant

BROKER_HISTORY_TESTS: Final = ("tests/spark_connector/pipeline/test_broker_history.py",)
CLIENT_HISTORY_TESTS: Final = ("tests/spark_connector/pipeline/test_client_history.py",)
PIPELINE: Final = "spark_connector/pyspark_arneb/pipeline/"
CHECKS: Final = PIPELINE + "checks/"
REPLAY_PLAN_TESTS: Final = ("tests/spark_connector/pipeline/test_replay_plan.py",)
REPLAY_SOURCE_TESTS: Final = ("tests/spark_connector/pipeline/test_replay_source.py",)
REPLAY_TESTS: Final = ("tests/spark_connector/pipeline/test_replay.py",)
RECORDING_TESTS: Final = ("tests/core/engine/group_commit/test_recording.py",)

OWN_CODE_TESTS: Final = ("tests/spark_connector/pipeline/test_own_code.py",)
SESSION_TESTS: Final = ("tests/spark_connector/pipeline/test_session.py",)
PROGRESS_TESTS: Final = ("tests/spark_connector/pipeline/test_progress.py",)

PIPELINE_MUTANTS: Final = (
    Mutant(
        "a history is written behind all that waits, after the cursor that it concerns",
        CORE + "engine/group_commit/committer.py",
        "            waiting.extendleft(self._due_histories())\n",
        "            waiting.extend(self._due_histories())\n",
        RECORDING_TESTS,
    ),
    Mutant(
        "messages that leave without an acknowledgement are in no history",
        CORE + "subscription/state/state.py",
        "        if self.history is not None:\n",
        "        if self.history is not None and is_dead_lettered:\n",
        RECORDING_TESTS,
    ),
    Mutant(
        "a rejection is recorded as an acknowledgement",
        CORE + "subscription/consumers/recorded.py",
        "        history, state.history = state.history, None\n",
        "        history = state.history\n",
        RECORDING_TESTS,
    ),
    Mutant(
        "what waits for the disk is not bounded",
        CORE + "subscription/state/history.py",
        "        if self._bytes > WAITING_BYTES_MAX:\n",
        "        if False:\n",
        RECORDING_TESTS,
    ),
    Mutant(
        "cursors behind a failure go without what histories say of them",
        CORE + "engine/group_commit/committer.py",
        "        return not self.full if alone else take_cursors",
        "        return False if alone else take_cursors",
        RECORDING_TESTS,
    ),
    Mutant(
        "cursors that a unit takes along go without their histories",
        CORE + "engine/group_commit/committer.py",
        "take_cursors or any(r.acks for r in self._waiting)\n",
        "take_cursors\n",
        RECORDING_TESTS,
    ),
    Mutant(
        "histories that cannot be written keep all others waiting",
        CORE + "engine/group_commit/committer.py",
        "bool(commits[0].requests) and not commits[0].goes_alone\n",
        "bool(commits[0].requests)\n",
        RECORDING_TESTS,
    ),
    Mutant(
        "a history whose commit failed forgets what was in it",
        CORE + "engine/group_commit/recording.py",
        "            self.history.untake(batches)\n",
        "            pass\n",
        RECORDING_TESTS,
    ),
    Mutant(
        "a delivery after its acknowledgement is not an anomaly",
        CHECKS + "broker_history.py",
        "        if done is not None and not may_return:\n",
        "        if done is not None and done.dead_lettered:\n",
        BROKER_HISTORY_TESTS,
    ),
    Mutant(
        "an entry that is missing from a history is not noticed",
        CHECKS + "broker_history.py",
        "        yield from _never_recorded(where, expected, place, moves)\n",
        "",
        BROKER_HISTORY_TESTS,
    ),
    Mutant(
        "a history with a gap counts as complete",
        CHECKS + "broker_history.py",
        "        if batch != expected:\n",
        "        if batch < expected:\n",
        BROKER_HISTORY_TESTS,
    ),
    Mutant(
        "a confirmed message that nobody received does not count as lost",
        CHECKS + "client_history.py",
        '    if drained and "confirmed" in by_kind and not received:\n',
        '    if drained and "acknowledged" in by_kind and not received:\n',
        CLIENT_HISTORY_TESTS,
    ),
    Mutant(
        "pieces of a replay overlap",
        PIPELINE + "replay_plan.py",
        "        start = piece.last + 1\n",
        "        start = piece.last\n",
        REPLAY_PLAN_TESTS,
    ),
    Mutant(
        "a piece that was too large is halved, and the other half forgotten",
        PIPELINE + "replay_plan.py",
        "piece.ledger, piece.first, middle, piece.is_sealed)",
        "piece.ledger, middle + 1, piece.last, piece.is_sealed)",
        REPLAY_PLAN_TESTS,
    ),
    Mutant(
        "a replay that begins twice at once has two plans",
        PIPELINE + "replay_plan.py",
        "            _wrote(file, lambda: os.link(draft, file))\n",
        "            draft.replace(file)\n",
        REPLAY_PLAN_TESTS,
    ),
    Mutant(
        "a piece of a replay has no number by which the broker knows it",
        PIPELINE + "replay.py",
        "idempotenceVersion=str(plan.number)",
        "idempotenceVersion=str(time.time_ns())",
        REPLAY_TESTS,
    ),
    Mutant(
        "sealed entries still in the log are replayed from both",
        PIPELINE + "replay_source.py",
        "        extents = [extent for view in views for extent in view.extents]\n",
        "        extents = source.extents([e.topic for view in views for e in view.extents])\n",
        REPLAY_SOURCE_TESTS,
    ),
    Mutant(
        "sealed entries are replayed in the divisions of their files",
        PIPELINE + "replay_source.py",
        '.coalesce(1).sortWithinPartitions("entry_id", "batch_index")',
        '.coalesce(1).sortWithinPartitions("key", "batch_index")',
        REPLAY_SOURCE_TESTS,
    ),
    Mutant(
        "erased messages are replayed from the log",
        PIPELINE + "replay_source.py",
        "        return rows.where(~is_erased(erased)) if erased else rows\n",
        "        return rows\n",
        REPLAY_SOURCE_TESTS,
    ),
    Mutant(
        "executors elsewhere have no codecs",
        PIPELINE + "own_code.py",
        'for name in ("METADATA", "entry_points.txt"):',
        'for name in ("METADATA",):',
        OWN_CODE_TESTS,
    ),
    Mutant(
        "executors of a cluster run the code that they have",
        PIPELINE + "session.py",
        "            if not is_here(master):\n",
        "            if is_remote(master):\n",
        OWN_CODE_TESTS,
    ),
    Mutant(
        "of several masters the first one must listen",
        PIPELINE + "session.py",
        "            problem = error\n",
        "            problem = error\n            break\n",
        SESSION_TESTS,
    ),
    Mutant(
        "a progress bar forgets stages that have ended",
        PIPELINE + "progress.py",
        "            self._tasks[stage] = total, total\n",
        "            del self._tasks[stage]\n",
        PROGRESS_TESTS,
    ),
)
