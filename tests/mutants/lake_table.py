"""Mutants of the sealed tier: rows that occur twice, are missing, or should be gone."""

from typing import Final

from tests.mutants.table import Mutant

LAKE: Final = "spark_connector/pyspark_arneb/lake/"
OFFLOAD_TESTS: Final = ("tests/spark_connector/test_lake_offload.py",)
MERGING_TESTS: Final = ("tests/spark_connector/test_lake_merging.py",)
COMMAND_TESTS: Final = ("tests/spark_connector/test_lake_commands.py",)
BROKER_TESTS: Final = ("tests/spark_connector/test_lake_broker.py",)

READ_TESTS: Final = ("tests/spark_connector/test_lake_reads.py",)
NAME_TESTS: Final = ("tests/spark_connector/test_lake_sql_names.py",)

LAKE_MUTANTS: Final = (
    Mutant(
        "a filter that was taken from Spark is not applied to sealed rows",
        "spark_connector/pyspark_arneb/batch.py",
        "            wants=lambda ledger: self._wants(topic, ledger),\n",
        "",
        READ_TESTS,
    ),
    Mutant(
        "ledgers of another topic are read from the table of one with the same name",
        LAKE + "view.py",
        "    log = LogId(loss.topic, loss.topic_id)\n",
        "    log = LogId(loss.topic, table.topic_id(-1))\n",
        READ_TESTS,
    ),
    Mutant(
        "data that was gone before the tier began is silently missing",
        LAKE + "view.py",
        "    return replace(loss, first=begin) if begin <= loss.last else None\n",
        "    return loss\n",
        READ_TESTS,
    ),
    Mutant(
        "two offloads add a ledger to the table twice",
        LAKE + "table.py",
        "        properties = CommitProperties(app_transactions=transactions)\n",
        "        properties = CommitProperties()\n",
        OFFLOAD_TESTS,
    ),
    Mutant(
        "two merges of the same files both count",
        LAKE + "table.py",
        "CommitProperties(max_commit_retries=0)",
        "CommitProperties()",
        MERGING_TESTS,
    ),
    Mutant(
        "another topic of the same name continues in the table",
        LAKE + "table.py",
        "        if known != log.topic_id:\n",
        "        if known is None:\n",
        OFFLOAD_TESTS,
    ),
    Mutant(
        "a file that does not hold what was written is committed",
        LAKE + "data_file.py",
        "        if read_back != digest:\n",
        "        if read_back.rows != digest.rows:\n",
        OFFLOAD_TESTS,
    ),
    Mutant(
        "data that was trimmed before its offload is silently skipped",
        LAKE + "table.py",
        "max(0, messages_before - sealed)",
        "0",
        OFFLOAD_TESTS,
    ),
    Mutant(
        "an erased key comes back with a ledger that is sealed later",
        LAKE + "sealing.py",
        "                    map(erased.kept, pieces.take()),\n",
        "                    pieces.take(),\n",
        OFFLOAD_TESTS,
    ),
    Mutant(
        "an erasure does not reach a ledger that is being sealed",
        LAKE + "sealing.py",
        "        since = ErasedKeys.of(self._table.target) - erased\n",
        "        since = erased - erased\n",
        OFFLOAD_TESTS,
    ),
    Mutant(
        "an erased key can still be seen in the log",
        LAKE + "query.py",
        "                yield self.view.erased.kept(batch)\n",
        "                yield batch\n",
        COMMAND_TESTS,
    ),
    Mutant(
        "the live tail begins one ledger late",
        LAKE + "view.py",
        "position_at(_through(table, extent) + 1, 0)",
        "position_at(_through(table, extent) + 2, 0)",
        COMMAND_TESTS,
    ),
    Mutant(
        "the broker retains only what is published from the first offload on",
        LAKE + "cursor_guard.py",
        '"earliest" if start == FIRST_LEDGER',
        '"latest" if start == FIRST_LEDGER',
        BROKER_TESTS,
    ),
    Mutant(
        "the broker is told to release a ledger that is not offloaded",
        LAKE + "offload.py",
        "        self._guard.release(this, Position(last + 1))\n",
        "        self._guard.release(this, position_at(ledger_of(last) + 2, 0))\n",
        BROKER_TESTS,
    ),
    Mutant(
        "of two topics that differ in case SQL gets either",
        LAKE + "sql_names.py",
        "        if len(found) > 1 and len(meant) != 1:\n",
        "        if len(found) > 1 and not meant:\n",
        NAME_TESTS,
    ),
    Mutant(
        "a part of a longer name is taken for a topic",
        LAKE + "sql_names.py",
        'rf"(?<!\\w){pattern}(?!\\w)"',
        'rf"{pattern}"',
        NAME_TESTS,
    ),
    Mutant(
        "our variables are tables in SQL",
        LAKE + "query.py",
        'config={"python_enable_replacements": "false"}',
        "",
        COMMAND_TESTS,
    ),
)
