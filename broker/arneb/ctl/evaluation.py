"""Evaluation: the few Erlang expressions that test suites of clients send to a broker.

The rule: a table maps patterns to what they do here; an expression that is not in it is refused and
changes nothing. There is no Erlang.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from arneb.ctl.exits import ExitCode
from arneb.ctl.session import Command, Misused, Session

Match = re.Match[str]

_RESOURCE: Final = r"\{\s*resource_limit\s*,\s*(memory|disk)\s*,\s*node\(\s*\)\s*\}"


def _set_alarm(session: Session, found: Match) -> str:
    limit: dict[str, dict[str, Any]] = {
        "memory": {"memory_high_watermark": 0.0},
        "disk": {"disk_free_min_bytes": 2**62},
    }
    session.checked(session.ask("PUT", "/api/alarms", limit[found[1]]))
    return "ok"


def _clear_alarm(session: Session, found: Match) -> str:
    """Set the watermark back to its value when the broker was started."""
    kept = session.steer("GET", "environment")["alarms"]
    names = {
        "memory": ("memory_high_watermark", "memory_high_watermark_bytes"),
        "disk": ("disk_free_min_bytes",),
    }
    session.checked(
        session.ask("PUT", "/api/alarms", {name: kept[name] for name in names[found[1]]})
    )
    return "ok"


def _channel_max(session: Session, found: Match) -> str:
    session.steer("PUT", "settings", {"channel_max": int(found[1])})
    return "ok"


def _consumer_timeout(session: Session, found: Match) -> str:
    seconds = 0 if found[1] == "undefined" else int(found[1]) / 1000
    session.steer("PUT", "settings", {"consumer_timeout_s": seconds})
    return "ok"


def _shown_setting(session: Session, found: Match) -> str:
    """Return a setting as it was when the broker was started."""
    amqp = session.steer("GET", "environment")["amqp"]
    values = {
        "channel_max": amqp["channel_max"],
        "frame_max": amqp["frame_bytes_max"],
        "heartbeat": amqp["heartbeat_s"],
        "consumer_timeout": int(amqp["consumer_timeout_s"] * 1000),
    }
    return f"{{ok,{values[found[1]]}}}"


def _is_clustered(session: Session, found: Match) -> str:
    return "false"


def _loopback_users(session: Session, found: Match) -> str:
    users = re.findall(r'<<"((?:[^"\\]|\\.)*)">>', found[1])
    session.steer("PUT", "settings", {"loopback_users": users})
    return "ok"


def _nothing(session: Session, found: Match) -> str:
    """Do nothing: statistics are always current here, whatever their interval."""
    return "ok"


def _node_name(session: Session, found: Match) -> str:
    return f"'{session.node}'"


def _is_running(session: Session, found: Match) -> str:
    session.get("overview")
    return "true"


def _compact(text: str) -> str:
    """Return a pattern that allows blanks between its words."""
    return r"\s*".join(text.split())


KNOWN: Final[tuple[tuple[re.Pattern[str], Callable[[Session, Match], str]], ...]] = tuple(
    (re.compile(_compact(pattern) + r"\s*\.?\s*"), run)
    for pattern, run in (
        (rf"rabbit_alarm:set_alarm\( \{{ {_RESOURCE} , \[\] \}} \)", _set_alarm),
        (rf"rabbit_alarm:clear_alarm\( {_RESOURCE} \)", _clear_alarm),
        (r"application:set_env\( rabbit , channel_max , (\d{1,5}) \)", _channel_max),
        (r"application:set_env\( rabbit , loopback_users , \[(.*)\] \)", _loopback_users),
        (r"application:set_env\( rabbit , consumer_timeout , (\d{1,12}|undefined) \)",
         _consumer_timeout),
        (r"application:get_env\( rabbit , (channel_max|consumer_timeout|frame_max|heartbeat) \)",
         _shown_setting),
        (r"rabbit_mnesia:is_clustered\( \)", _is_clustered),
        (r"application:set_env\( rabbit , collect_statistics_interval , (\d+) \)", _nothing),
        (r"application:set_env\( rabbit(?:mq_management_agent)? , rates_mode , \w+ \)", _nothing),
        (r"supervisor2:(?:terminate|restart)_child\( rabbit_mgmt_sup_sup , rabbit_mgmt_sup \)",
         _nothing),
        (r"supervisor2:(?:terminate|restart)_child\( rabbit_mgmt_sup , rabbit_mgmt_db \)",
         _nothing),
        (r"node\( \)", _node_name),
        (r"rabbit:is_running\( \)", _is_running),
    )
)  # fmt: skip


def _eval(session: Session) -> None:
    text = " ".join(session.arguments).strip()
    for pattern, run in KNOWN:
        if (found := pattern.fullmatch(text)) is not None:
            session.output.text(run(session, found))
            return
    raise Misused(
        "this broker has no Erlang: of `eval` only what sets alarms, channel_max, loopback_users "
        "and the interval of statistics is understood",
        ExitCode.USAGE,
        heading="Error",
    )


COMMANDS: Final = (
    Command("eval", "<expression>", "Understands the few expressions that test suites use", _eval,
            1),
)  # fmt: skip
