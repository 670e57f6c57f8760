"""Dead code: nothing in the product is there that neither it nor a test of it uses.

Every name that is used where ``vulture`` cannot see it stands below with the reason, and one that
is no longer needed there fails too.
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
    "amqp_frontend/arneb_amqp/topology/queues/options.py: REJECT_PUBLISH": BY_VALUE,
    "amqp_frontend/arneb_amqp/wire/access.py: frame_id": OVERRIDDEN,
    "amqp_frontend/arneb_amqp/wire/properties.py: APP_ID": "a flag of the protocol's table",
    "amqp_frontend/arneb_amqp/wire/properties.py: CLUSTER_ID": "a flag of the protocol's table",
    "amqp_frontend/arneb_amqp/wire/properties.py: CORRELATION_ID": "a flag of the protocol's table",
    "amqp_frontend/arneb_amqp/wire/properties.py: cluster_id": BY_FIELD,
    "amqp_frontend/arneb_amqp/wire/properties.py: content_encoding": BY_FIELD,
    "broker/arneb/cli.py: exit_code": OVERRIDDEN,
    "broker/arneb/cli.py: format_commands": OVERRIDDEN,
    "broker/arneb/cli.py: get_command": OVERRIDDEN,
    "broker/arneb/cli.py: list_commands": OVERRIDDEN,
    "broker/arneb/commands/compact_store.py: compact_store": "a command, found by its name",
    "broker/arneb/http/server.py: shield": OVERRIDDEN,
    "broker/arneb/log_lines.py: unraisablehook": OVERRIDDEN,
    "broker/arneb/turn_watchdog.py: after_io_wait": OVERRIDDEN,
    "broker/arneb/turn_watchdog.py: after_task_step": OVERRIDDEN,
    "broker/arneb/turn_watchdog.py: before_io_wait": OVERRIDDEN,
    "broker/arneb/turn_watchdog.py: before_task_step": OVERRIDDEN,
    "broker/arneb/turn_watchdog.py: total_ms": BY_FIELD,
    "core/arneb_core/api/statistics.py: store_bytes": BY_FIELD,
    "core/arneb_core/api/subscription_types.py: _value_": OVERRIDDEN,
    "core/arneb_core/store/environment.py: exc": "what a context manager is given",
    "core/arneb_core/store/pages.py: exc": "what a context manager is given",
    "core/arneb_core/store/snapshot.py: exc": "what a context manager is given",
    "pulsar_frontend/arneb_pulsar/namespaces/rules.py: CAUGHT_UP": BY_VALUE,
    "pulsar_frontend/arneb_pulsar/patterns.py: log_errors": OVERRIDDEN,
    "pulsar_frontend/arneb_pulsar/patterns.py: max_mem": OVERRIDDEN,
    "pulsar_frontend/arneb_pulsar/patterns.py: never_capture": OVERRIDDEN,
    **{
        f"pulsar_frontend/arneb_pulsar/schemas/schema.py: {name}": BY_VALUE
        for name in (
            "BOOLEAN", "DATE", "INSTANT", "INT16", "INT64", "INT8", "LOCAL_DATE",
            "LOCAL_DATE_TIME", "LOCAL_TIME",
        )
    },
}  # fmt: skip


def test_nothing_is_there_that_nobody_uses() -> None:
    found = vulture.Vulture()
    folders = [*PACKAGES, "tests", "conformance", "bench"]
    found.scavenge([REPOSITORY / each for each in folders], exclude=["*_pb2.py", "*/suites/*"])
    unused = {
        f"{name_of(item.filename)}: {item.name}"
        for item in found.get_unused_code(min_confidence=CONFIDENCE_MIN)
        if name_of(item.filename).startswith(PACKAGES)
    }
    assert unused == set(SEEN_BY_NOBODY)
