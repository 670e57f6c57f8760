"""The compiled run: which tests run on compiled modules as well.

The rule: all of them, but for those that reach no module that is compiled, and those whose subject
is no running code. What is not named here runs.
"""

import sysconfig
from pathlib import Path
from typing import Final

from hatch_build import HOT, ROOT

UNREACHING: Final = (
    "tests/amqp_frontend/client/test_uris.py",
    "tests/amqp_frontend/session/connection/test_heartbeats.py",
    "tests/amqp_frontend/test_errors.py",
    "tests/cluster/protocol",
    "tests/cluster/routing/test_division.py",
    "tests/cluster/test_applying.py",
    "tests/cluster/test_commit_log.py",
    "tests/cluster/test_following.py",
    "tests/cluster/test_held_directories.py",
    "tests/cluster/test_membership.py",
    "tests/cluster/test_ordered.py",
    "tests/cluster/test_producer.py",
    "tests/cluster/test_replica.py",
    "tests/cluster/test_serving_lease.py",
    "tests/crash/test_processor_wait.py",
    "tests/test_java_table.py",
    "tests/test_pulsar_cluster.py",
    "tests/test_splitter.py",
)
"""Files and folders of tests that reach nothing that is compiled; ``test_compiled_run`` proves
that."""

OTHER_SUBJECTS: Final = {
    "tests/broker/demo/test_demo.py": "the demonstration, of which every part has tests of its own",
    "tests/cluster/kills": "kills of nodes, and what their log has",
    "tests/crash/test_delayed.py": "kills, and what a delayed index has",
    "tests/crash/test_last_ledger.py": "kills, and which positions are given out",
    "tests/crash/test_staged.py": "kills, and what Spark's batches have",
    "tests/damage/test_damage.py": "files that are damaged",
    "tests/docs/test_graph.py": "a drawing of the source text",
    "tests/docs/test_man_page.py": "a page",
    "tests/docs/test_pulsar_client_page.py": "a page",
    "tests/docs/test_site.py": "the site of all pages",
    "tests/docs/test_spark_page.py": "a page",
    "tests/mutants": "the table of known mistakes",
    "tests/spark_connector/pipeline/test_replay_crash.py": "kills of a replay",
    "tests/spark_connector/stream/test_soak.py": "kills of a query",
    "tests/test_bench_results.py": "the pages of measurements",
    "tests/test_compiled.py": "how modules are compiled",
    "tests/test_dead_code.py": "the source text",
    "tests/test_lanes.py": "how the scenarios of real clients are started",
    "tests/test_packaging.py": "what is packed",
    "tests/test_tidy.py": "the source text",
    "tests/test_compiled_run.py": "these lists",
}
"""Files and folders that are left out too, and what they are about. Kills are among them where they
take long and AMQP's clients are not what they try: of those, test_sigkill and test_mixed run."""

SUBJECT: Final = "tests/amqp_frontend"
"""The tests of what is compiled. They have as many random examples as on pure modules."""

EXAMPLES_SHARE: Final = 4
"""Other tests have this part of them. Their rules are asked of pure modules with all; what only
compiled ones do wrong, such as a type that they do not take, shows in the first examples."""


def examples_of(path: Path, count: int) -> int:
    """How many of ``count`` random examples the tests in the file ``path`` have."""
    is_subject = path.is_relative_to(ROOT / SUBJECT)
    return count if is_subject else max(1, count // EXAMPLES_SHARE)


def is_left_out(path: Path) -> bool:
    """Whether the file or folder ``path`` has no tests for compiled modules."""
    name = f"{path.relative_to(ROOT).as_posix()}/"
    return any(name.startswith(f"{each}/") for each in (*UNREACHING, *OTHER_SUBJECTS))


def not_compiled() -> list[str]:
    """The modules that are to be compiled in this checkout and are not."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    return [each for each in HOT if not (ROOT / each).with_suffix(suffix).exists()]
