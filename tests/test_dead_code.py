"""Dead code: nothing in the product is there that the product itself does not use.

Every name that is used where ``vulture`` cannot see it, or that is there for tests all the same,
stands below with the reason, and one that is no longer needed there fails too.
"""

from typing import Final

import pytest
from tests.test_tidy import PACKAGES, REPOSITORY, name_of

vulture = pytest.importorskip("vulture", reason="make check installs it")

CONFIDENCE_MIN: Final = 60
"""What vulture gives names that occur once."""

BY_VALUE: Final = "an enum whose members are found by their values"
BY_FIELD: Final = "its fields are read by name, by dataclasses or by its class"
OVERRIDDEN: Final = "called, or read, by the library whose class it extends"

SEEN_BY_NOBODY: Final[dict[str, str]] = {
    "amqp_frontend/arneb_amqp/errors.py: INVALID_PATH": "a code of the protocol's table",
    "amqp_frontend/arneb_amqp/errors.py: REPLY_SUCCESS": "a code of the protocol's table",
    "amqp_frontend/arneb_amqp/server/connection.py: shield": OVERRIDDEN,
    "amqp_frontend/arneb_amqp/shovels/settings.py: ON_PUBLISH": BY_VALUE,
    "amqp_frontend/arneb_amqp/wire/access.py: frame_id": OVERRIDDEN,
    "amqp_frontend/arneb_amqp/wire/properties.py: APP_ID": "a flag of the protocol's table",
    "amqp_frontend/arneb_amqp/wire/properties.py: CLUSTER_ID": "a flag of the protocol's table",
    "amqp_frontend/arneb_amqp/wire/properties.py: cluster_id": BY_FIELD,
    "broker/arneb/cli.py: format_commands": OVERRIDDEN,
    "broker/arneb/cli.py: get_command": OVERRIDDEN,
    "broker/arneb/cli.py: list_commands": OVERRIDDEN,
    "spark_connector/pyspark_arneb/__init__.py: __getattr__": "how a module is asked for names",
    "broker/arneb/commands/compact_store.py: compact_store": "a command, found by its name",
    "broker/arneb/commands/doctor.py: doctor": "a command, found by its name",
    "broker/arneb/http/server/server.py: shield": OVERRIDDEN,
    "broker/arneb/logs/log_lines.py: unraisablehook": OVERRIDDEN,
    "broker/arneb/monitoring/turn_watchdog.py: after_io_wait": OVERRIDDEN,
    "broker/arneb/monitoring/turn_watchdog.py: after_task_step": OVERRIDDEN,
    "broker/arneb/monitoring/turn_watchdog.py: before_io_wait": OVERRIDDEN,
    "broker/arneb/monitoring/turn_watchdog.py: before_task_step": OVERRIDDEN,
    "broker/arneb/monitoring/turn_watchdog.py: total_ms": BY_FIELD,
    "cluster/arneb_cluster/routing/internal_settings.py: num_tickets": OVERRIDDEN,
    "core/arneb_core/access/patterns.py: log_errors": OVERRIDDEN,
    "core/arneb_core/api/process/supervision.py: shield": OVERRIDDEN,
    "core/arneb_core/access/patterns.py: max_mem": OVERRIDDEN,
    "core/arneb_core/access/patterns.py: never_capture": OVERRIDDEN,
    "core/arneb_core/api/subscriptions/subscription_types.py: _value_": OVERRIDDEN,
    "core/arneb_core/api/statistics.py: journal_direct": BY_FIELD,
    "core/arneb_core/store/environment.py: exc": "what a context manager is given",
    "core/arneb_core/store/offline_metadata.py: exc": "what a context manager is given",
    "core/arneb_core/store/data_file/pages.py: exc": "what a context manager is given",
    "core/arneb_core/store/reading/snapshot_environment.py: exc": "what a context manager is given",
    "pulsar_frontend/arneb_pulsar/namespaces/policies.py: deduplication_snapshot_s": BY_FIELD,
    "pulsar_frontend/arneb_pulsar/client/testing/session.py: _":
        "found by the type of what it is given",
    "pulsar_frontend/arneb_pulsar/client/errors.py: UnsupportedVersion": "found by its code",
    "pulsar_frontend/arneb_pulsar/patterns.py: log_errors": OVERRIDDEN,
    "pulsar_frontend/arneb_pulsar/patterns.py: max_mem": OVERRIDDEN,
    "pulsar_frontend/arneb_pulsar/patterns.py: never_capture": OVERRIDDEN,
    "spark_connector/pyspark_arneb/lake/query.py: exc": "what a context manager is given",
    **{
        f"pulsar_frontend/arneb_pulsar/schemas/schema.py: {name}": BY_VALUE
        for name in (
            "INSTANT", "LOCAL_DATE", "LOCAL_DATE_TIME", "LOCAL_TIME",
        )
    },
    **{
        f"spark_connector/pyspark_arneb/stream/reader.py: {name}": OVERRIDDEN
        for name in ("prepareForTriggerAvailableNow", "reportLatestOffset")
    },
}  # fmt: skip


TESTING: Final = "core/arneb_core/testing/"
"""Is a product only to those who write tests."""

LIBRARY: Final = "pulsar_frontend/arneb_pulsar/client/"
"""A library: what it offers is used by its applications, and by the tests, all of it."""


SEEN_BY_TESTS_ONLY: Final[dict[str, str]] = {
    "amqp_frontend/arneb_amqp/wire/properties.py: content_encoding": BY_FIELD,
    "amqp_frontend/arneb_amqp/config.py: SUBJECT_ALTERNATIVE_NAME": BY_VALUE,
    "amqp_frontend/arneb_amqp/wire/properties.py: app_id": BY_FIELD,
    "amqp_frontend/arneb_amqp/wire/properties.py: content_type": BY_FIELD,
    "broker/arneb/commands/ctl.py: ctl": "a command, found by its name",
    "broker/arneb/cli.py: exit_code": OVERRIDDEN,
    "broker/arneb/commands/backup.py: backup": "a command, found by its name",
    "broker/arneb/commands/offload.py: offload": "a command, found by its name",
    "broker/arneb/demo/process.py: last_words": "what a broker that was stopped had to say",
    "pulsar_frontend/arneb_pulsar/namespaces/rules.py: CAUGHT_UP": BY_VALUE,
    "spark_connector/pyspark_arneb/source.py: streamReader": OVERRIDDEN,
    "spark_connector/pyspark_arneb/source.py: streamWriter": OVERRIDDEN,
    "spark_connector/pyspark_arneb/batch.py: pushFilters": OVERRIDDEN,
    "spark_connector/pyspark_arneb/log/environment.py: close_environments":
        "lets one process read a store, and then open it",
    "spark_connector/pyspark_arneb/pipeline/checks/broker_history.py: check_history":
        "the audit of a history that is in memory, for whoever has one",
    "spark_connector/pyspark_arneb/pipeline/checks/client_history.py: check_events":
        "the audit of histories that are in memory, for whoever has some",
    "spark_connector/pyspark_arneb/service/connection.py: close_connections":
        "lets one thread talk to one broker after the other",
    **{
        f"spark_connector/pyspark_arneb/stream/reader.py: {name}": OVERRIDDEN
        for name in ("getDefaultReadLimit", "initialOffset", "latestOffset")
    },
}  # fmt: skip


def test_nothing_is_unused() -> None:
    assert unused_in(*PACKAGES, "tests", "conformance", "bench") == set(SEEN_BY_NOBODY)


def test_nothing_is_there_that_only_tests_use() -> None:
    unused = {each for each in unused_in(*PACKAGES) if not each.startswith((TESTING, LIBRARY))}
    known = {*SEEN_BY_NOBODY, *SEEN_BY_TESTS_ONLY}
    assert unused == {each for each in known if not each.startswith(LIBRARY)}


def unused_in(*folders: str) -> set[str]:
    """The names of the product that nothing in ``folders`` uses."""
    found = vulture.Vulture()
    found.scavenge([REPOSITORY / each for each in folders], exclude=["*_pb2.py", "*/suites/*"])
    return {
        f"{name_of(item.filename)}: {item.name}"
        for item in found.get_unused_code(min_confidence=CONFIDENCE_MIN)
        if name_of(item.filename).startswith(PACKAGES)
    }
