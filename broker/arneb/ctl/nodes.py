"""Nodes: commands on the broker as a whole and its process.

The rule: stopping, starting and resetting use the control socket, which is open in every state;
questions to the running broker use the management API.
"""

import json
import os
import select
import time
from typing import Any, Final

from arneb import __version__
from arneb.ctl.calling import Unreachable
from arneb.ctl.exits import ExitCode, Failed, error
from arneb.ctl.session import Command, Session, running
from arneb.settings.process import LogLevel

AWAIT_S: Final = 300.0
"""How long to wait for a start unless ``--timeout`` is given; RabbitMQ's figure."""

AGAIN_S: Final = 0.1

STOPPED_WITHIN_S: Final = 60.0
"""How long to wait for the process to end."""


def _ping(session: Session) -> None:
    session.says(
        f"Will ping {session.node}. This only checks if the OS process is running. "
        "Timeout: 60000 ms."
    )
    if session.is_trusted:
        session.steer("GET", "about")
    else:
        session.get("overview")
    session.output.text("Ping succeeded")


def _version(session: Session) -> None:
    session.output.text(__version__)


def _await_startup(session: Session) -> None:
    end = time.monotonic() + (AWAIT_S if session.timeout_s is None else session.timeout_s)
    while True:
        try:
            state = session.steer("GET", "about")["state"] if session.is_trusted else "running"
            if not session.is_trusted:
                session.get("overview")
        except Unreachable:
            state = "unreachable"
        if state == "running":
            return
        if time.monotonic() >= end:
            if state == "stopped":
                raise error(ExitCode.UNAVAILABLE, "rabbit_is_not_running")
            raise Failed(ExitCode.TIMED_OUT, f"Error: the broker is {state}; timed out waiting")
        time.sleep(AGAIN_S)


def _stop_app(session: Session) -> None:
    session.says(f"Stopping rabbit application on node {session.node} ...")
    session.steer("POST", "stop_app")


def _start_app(session: Session) -> None:
    session.says(f"Starting node {session.node} ...")
    session.steer("POST", "start_app")


def _stop(session: Session) -> None:
    session.says(f"Stopping and halting node {session.node} ...")
    pid = session.steer("POST", "stop")["pid"]
    limit_s = STOPPED_WITHIN_S if session.timeout_s is None else session.timeout_s
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return  # it has ended, or runs in another container
    try:
        ended, _, _ = select.select([process], [], [], limit_s)
    finally:
        os.close(process)
    if not ended:
        raise Failed(ExitCode.TIMED_OUT, "Error: the process has not ended in time")


def _reset(session: Session) -> None:
    if session.steer("GET", "about")["state"] != "stopped":
        raise running()
    session.says(f"Resetting node {session.node} ...")
    session.steer("POST", "reset")


def _rotate_logs(session: Session) -> None:
    session.says("Reopening log files ...")
    session.steer("POST", "reload")


def _set_log_level(session: Session) -> None:
    level = {"critical": "error", "none": "error"}.get(session.arguments[0], session.arguments[0])
    known = [each.value for each in LogLevel]
    if level not in known:
        listed = ", ".join([*known, "critical", "none"])
        what = f"level {session.arguments[0]} is not supported. Try one of {listed}"
        raise error(ExitCode.UNAVAILABLE, what)
    session.says(f'Setting log level to "{session.arguments[0]}" ...')
    session.steer("PUT", "settings", {"log_level": level})


# State


def _status(session: Session) -> None:
    overview = session.get("overview")
    [node] = session.get("nodes")
    document = _status_document(overview, node, len(session.get("vhosts")))
    session.says(f"Status of node {session.node} ...")
    session.output.value(document, "\n".join(_status_lines(session.node, document, node)))


def _status_document(overview: dict[str, Any], node: dict[str, Any], vhosts: int) -> dict[str, Any]:
    """Return the node's state, in the words of ``rabbitmqctl status``."""
    alarms = [each for each in ("mem", "disk_free") if node[f"{each}_alarm"]]
    return {
        "active_plugins": node["enabled_plugins"],
        "alarms": [{"mem": "memory", "disk_free": "disk"}[each] for each in alarms],
        "config_files": node["config_files"],
        "data_directory": node["db_dir"],
        "disk_free": node["disk_free"],
        "disk_free_limit": node["disk_free_limit"],
        "erlang_version": overview["erlang_full_version"],
        "file_descriptors": {
            "total_limit": node["fd_total"],
            "total_used": node["fd_used"],
            "sockets_limit": node["sockets_total"],
            "sockets_used": node["sockets_used"],
        },
        "is_under_maintenance": node["being_drained"],
        "listeners": [_listener(each) for each in overview["listeners"]],
        "log_files": node["log_files"],
        "memory": {
            "strategy": node["mem_calculation_strategy"],
            "total": {"rss": node["mem_used"], "allocated": node["mem_used"]},
        },
        "net_ticktime": node["net_ticktime"],
        "os": "Linux",
        "pid": int(node["os_pid"]),
        "processes": {"limit": node["proc_total"], "used": node["proc_used"]},
        "product_name": overview["product_name"],
        "product_version": overview["product_version"],
        "rabbitmq_version": overview["rabbitmq_version"],
        "run_queue": node["run_queue"],
        "totals": {
            "connection_count": overview["object_totals"]["connections"],
            "queue_count": overview["object_totals"]["queues"],
            "virtual_host_count": vhosts,
        },
        "uptime": node["uptime"] // 1000,
        "vm_memory_high_watermark_limit": node["mem_limit"],
        "vm_memory_high_watermark_setting": {"absolute": node["mem_limit"]},
    }


def _status_lines(name: str, found: dict[str, Any], node: dict[str, Any]) -> list[str]:
    """Return the same as lines of text."""
    return [
        "Runtime\n",
        f"OS PID: {found['pid']}",
        f"Uptime (seconds): {found['uptime']}",
        f"Product: {found['product_name']} {found['product_version']}",
        f"RabbitMQ version: {found['rabbitmq_version']}",
        f"Runtime: {found['erlang_version']}",
        "\nData directory\n",
        f"Node data directory: {found['data_directory']}",
        "\nAlarms\n",
        *([f"{each} alarm on node {name}" for each in found["alarms"]] or ["(none)"]),
        "\nMemory\n",
        f"Total memory used: {node['mem_used'] / 1e9:.4f} gb",
        f"Memory high watermark setting: computed to: {node['mem_limit'] / 1e9:.4f} gb",
        "\nFile Descriptors\n",
        f"Total: {node['fd_used']}, limit: {node['fd_total']}",
        "\nFree Disk Space\n",
        f"Low free disk space watermark: {node['disk_free_limit'] / 1e9:.4f} gb",
        f"Free disk space: {node['disk_free'] / 1e9:.4f} gb",
        "\nTotals\n",
        f"Connection count: {found['totals']['connection_count']}",
        f"Queue count: {found['totals']['queue_count']}",
        f"Virtual host count: {found['totals']['virtual_host_count']}",
        "\nListeners\n",
        *map(_listener_line, found["listeners"]),
    ]


_PURPOSES: Final = {
    "amqp": "AMQP 0-9-1", "amqp/ssl": "AMQP 0-9-1 over TLS", "http": "HTTP API",
    "https": "HTTP API over TLS", "http/prometheus": "Prometheus exporter API over HTTP",
    "pulsar": "Pulsar", "pulsar/ssl": "Pulsar over TLS", "http/pulsar": "Pulsar's admin API",
}  # fmt: skip


def _listener(document: dict[str, Any]) -> dict[str, Any]:
    protocol = document["protocol"]
    return {
        "node": document["node"],
        "interface": document["ip_address"],
        "port": document["port"],
        "protocol": protocol,
        "purpose": _PURPOSES.get(protocol, protocol),
    }


def _listener_line(found: dict[str, Any]) -> str:
    return (
        f"Interface: {found['interface']}, port: {found['port']}, protocol: {found['protocol']}, "
        f"purpose: {found['purpose']}"
    )


def _listeners(session: Session) -> None:
    found = [_listener(each) for each in session.get("overview")["listeners"]]
    session.says(f"Asking node {session.node} to report its protocol listeners ...")
    lines = "\n".join(map(_listener_line, found))
    session.output.value({"result": "ok", "node": session.node, "listeners": found}, lines)


def _cluster_status(session: Session) -> None:
    overview = session.get("overview")
    [node] = session.get("nodes")
    name, flags = session.node, session.get("feature-flags")
    listeners = [_listener(each) for each in overview["listeners"]]
    versions = {"rabbitmq_version": overview["rabbitmq_version"],
                "erlang_version": overview["erlang_version"]}  # fmt: skip
    found = {
        "alarms": [each for each in ("mem_alarm", "disk_free_alarm") if node[each]],
        "cluster_name": overview["cluster_name"],
        "disk_nodes": [name],
        "feature_flags": flags,
        "listeners": {name: listeners},
        "maintenance_status": {name: "not under maintenance"},
        "partitions": {},
        "ram_nodes": [],
        "running_nodes": [name],
        "versions": {name: versions},
    }
    version = f"{name}: RabbitMQ {versions['rabbitmq_version']} on Arneb {__version__}"
    lines = [
        "Basics\n", f"Cluster name: {found['cluster_name']}",
        "\nDisk Nodes\n", name,
        "\nRunning Nodes\n", name,
        "\nVersions\n", version,
        "\nMaintenance status\n", f"Node: {name}, status: not under maintenance",
        "\nAlarms\n", "\n".join(map(str, found["alarms"])) or "(none)",
        "\nNetwork Partitions\n", "(none)",
        "\nListeners\n", *(f"Node: {name}, {_lower(_listener_line(each))}" for each in listeners),
        "\nFeature flags\n", *(f"Flag: {each['name']}, state: {each['state']}" for each in flags),
    ]  # fmt: skip
    session.says(f"Cluster status of node {name} ...")
    session.output.value(found, "\n".join(lines))


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _environment(session: Session) -> None:
    session.says(f"Application environment of node {session.node} ...")
    found = session.steer("GET", "environment")
    session.output.value(found, json.dumps(found, indent=2, ensure_ascii=False))


def _flags(session: Session) -> None:
    session.says("Listing feature flags ...")
    found = session.get("feature-flags")
    session.output.rows(("name", "state"), [(each["name"], each["state"]) for each in found])


def _deprecated(session: Session) -> None:
    used = "used" in session.options
    session.says(f"Listing {'used ' if used else ''}deprecated features ...")
    found = session.get("deprecated-features", *(["used"] if used else []))
    columns = ("name", "deprecation_phase", "provided_by", "desc")
    session.output.rows(columns, [[each.get(name, "") for name in columns] for each in found])


def _enable_flag(session: Session) -> None:
    name = session.arguments[0]
    if name == "all":
        session.says("Enabling all feature flags ...")
        return
    session.says(f'Enabling feature flag "{name}" ...')
    session.put("feature-flags", name, "enable")


COMMANDS: Final = (
    Command("ping", "", "Checks that the node's process is up and answers", _ping, 0, 0,
            runs_stopped=True),
    Command("version", "", "Displays the version", _version, 0, 0, asks=False),
    Command("await_startup", "", "Waits for the broker to start on the target node",
            _await_startup, 0, 0, runs_stopped=True),
    Command("stop_app", "", "Stops the broker, leaving its process running", _stop_app, 0, 0,
            runs_stopped=True),
    Command("start_app", "", "Starts the broker in a process that runs", _start_app, 0, 0,
            runs_stopped=True),
    Command("stop", "[<pidfile>]", "Stops the broker and its process", _stop, 0, 1,
            runs_stopped=True),
    Command("shutdown", "[--wait]", "Stops the broker and its process, and waits for its end",
            _stop, 0, 0, frozenset({"wait", "no-wait"}), runs_stopped=True),
    Command("reset", "", "Removes all that a stopped broker has stored", _reset, 0, 0,
            runs_stopped=True),
    Command("force_reset", "", "Removes all that a stopped broker has stored", _reset, 0, 0,
            runs_stopped=True),
    Command("rotate_logs", "", "Reopens log files and reads the settings again", _rotate_logs,
            0, 0),
    Command("set_log_level", "<log_level>", "Sets the log level of the running node",
            _set_log_level, 1, 1),
    Command("status", "", "Displays status of a node", _status, 0, 0, frozenset({"unit"})),
    Command("cluster_status", "", "Displays all the nodes in the cluster, which is one",
            _cluster_status, 0, 0),
    Command("environment", "", "Displays the settings of the node, without secrets", _environment,
            0, 0),
    Command("listeners", "", "Lists active connection listeners", _listeners, 0, 0),
    Command("list_feature_flags", "[--no-table-headers]", "Lists feature flags", _flags, 0, None,
            frozenset({"no-table-headers"})),
    Command("list_deprecated_features", "[--used] [--no-table-headers]",
            "Lists deprecated features", _deprecated, 0, 0,
            frozenset({"used", "no-table-headers"})),
    Command("enable_feature_flag", "<all|feature_flag>", "Enables a feature flag", _enable_flag, 1,
            1),
)  # fmt: skip
