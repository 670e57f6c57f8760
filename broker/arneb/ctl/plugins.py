"""Plugins: the commands of ``rabbitmq-plugins``, for scripts that start a broker.

The rule: a plugin that is built in here is always enabled and cannot be disabled; any other is
reported as missing.
"""

from collections.abc import Mapping
from typing import Final

from arneb.ctl.exits import ExitCode, error
from arneb.ctl.session import Command, Session

BUILT_IN: Final = (
    "rabbitmq_auth_backend_http",
    "rabbitmq_auth_backend_oauth2",
    "rabbitmq_auth_mechanism_ssl",
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_delayed_message_exchange",
    "rabbitmq_event_exchange",
    "rabbitmq_management",
    "rabbitmq_management_agent",
    "rabbitmq_prometheus",
    "rabbitmq_shovel",
    "rabbitmq_shovel_management",
    "rabbitmq_web_dispatch",
)
"""Plugins whose functions are part of the broker."""

BY_SETTING: Final[Mapping[str, str]] = {
    "rabbitmq_event_exchange": "[amqp] event_exchange_vhost says which vhost has the exchange",
}
"""Built-in plugins that do nothing until a setting enables them, with the setting."""

OPTIONS: Final = frozenset({"online", "offline", "enabled", "explicitly", "minimal", "verbose"})


def _enable(session: Session) -> None:
    session.says(f"Enabling plugins on node {session.node}:")
    _expect(session.arguments)
    for name in session.arguments:
        more = BY_SETTING.get(name)
        session.output.text(f"{name} is built in" + (f": {more}" if more else ""))


def _disable(session: Session) -> None:
    _expect(session.arguments)
    what = ", ".join(session.arguments)
    raise error(ExitCode.UNAVAILABLE, f"{what}: what is built in cannot be disabled")


def _list(session: Session) -> None:
    session.says("Listing what is built in ...")
    session.output.rows(("name",), [(each,) for each in BUILT_IN])


def _is_enabled(session: Session) -> None:
    _expect(session.arguments)
    for name in session.arguments:
        session.output.text(f"Plugin {name} is enabled on node {session.node}")


def _expect(names: list[str]) -> None:
    unknown = [each for each in names if each not in BUILT_IN]
    if unknown:
        raise error(ExitCode.UNAVAILABLE, f"no such plugin here: {', '.join(unknown)}")


COMMANDS: Final = (
    Command("enable", "<plugin> [...]", "Says whether what a plugin does is built in", _enable, 1,
            None, OPTIONS),
    Command("disable", "<plugin> [...]", "Says that what is built in stays", _disable, 1, None,
            OPTIONS),
    Command("list", "[<pattern>]", "Lists plugins whose work is built in", _list, 0, 1, OPTIONS),
    Command("is_enabled", "<plugin> [...]", "Says whether what a plugin does is built in",
            _is_enabled, 1, None, OPTIONS),
)  # fmt: skip
