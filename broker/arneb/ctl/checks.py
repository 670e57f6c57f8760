"""Checks: the health checks of ``rabbitmq-diagnostics``.

The rule: a check that passes ends in 0 with a sentence, one that fails in 69 with the reason.
"""

import socket
from typing import Any, Final

from arneb.ctl.exits import ExitCode, Failed
from arneb.ctl.session import Command, Misused, Session

CONNECT_S: Final = 5.0

EVERY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def _failed(text: str) -> Failed:
    return Failed(ExitCode.UNAVAILABLE, f"Error:\n{text}")


def _running(session: Session) -> None:
    node = session.node
    session.says(f"Checking if RabbitMQ is running on node {node} ...")
    state = session.steer("GET", "about")["state"] if session.is_trusted else "running"
    if not session.is_trusted:
        session.get("overview")
    if state != "running":
        raise _failed(f"RabbitMQ on node {node} is not running or has not fully booted yet")
    session.output.text(f"RabbitMQ on node {node} is fully booted and running")


def _is_running(session: Session) -> None:
    node = session.node
    session.says(f"Asking node {node} for its status ...")
    state = session.steer("GET", "about")["state"] if session.is_trusted else "running"
    word = "fully booted and running" if state == "running" else "not running"
    session.output.value({"node": node, "running": state == "running"},
                         f"RabbitMQ on node {node} is {word}")  # fmt: skip
    if state != "running":
        raise Failed(ExitCode.UNAVAILABLE, "")


def _alarms(session: Session, local: bool) -> None:
    node = session.node
    scope = "local" if local else "cluster-wide"
    session.says(f"Asking node {node} to report any {scope} resource alarms ...")
    answer = session.api("GET", "health", "checks", "local-alarms" if local else "alarms")
    if answer.status == 503:
        found = ", ".join(each["resource"] for each in answer.value["alarms"])
        what = "local alarms" if local else "alarms"
        raise _failed(f"Node {node} reported the following {what}: {found}")
    session.checked(answer)
    none = f"Node {node} reported no {'local ' if local else ''}alarms"
    session.output.text(none)


def _listing(session: Session) -> list[dict[str, Any]]:
    return list(session.get("overview")["listeners"])


def _port_connectivity(session: Session) -> None:
    node = session.node
    session.says(f"Testing TCP connections to all active listeners on node {node} ...")
    reached, refused = [], []
    for each in _listing(session):
        address = EVERY_ADDRESS.get(each["ip_address"], each["ip_address"])
        try:
            socket.create_connection((address, each["port"]), CONNECT_S).close()
        except OSError:
            refused.append(str(each["port"]))
        else:
            reached.append(str(each["port"]))
    if refused:
        ports = ", ".join(refused)
        raise _failed(f"Connection to the following listeners on node {node} failed: {ports}")
    ports = ", ".join(dict.fromkeys(reached))
    session.output.text(f"Successfully connected to ports {ports} on node {node}.")


def _port_listener(session: Session) -> None:
    text = session.arguments[0]
    if not (text.isascii() and text.isdecimal()):
        raise Misused("Bad argument.", ExitCode.DATA)
    node = session.node
    session.says(f"Asking node {node} if there's an active listener on port {text} ...")
    ports = sorted({each["port"] for each in _listing(session)})
    if int(text) not in ports:
        shown = ", ".join(map(str, ports))
        raise _failed(
            f"No listener for port {text} is active on node {node}. Found listeners that use the "
            f"following ports: {shown}"
        )
    session.output.text(f"A listener for port {text} is running on node {node}.")


def _protocol_listener(session: Session) -> None:
    name = session.arguments[0]
    node = session.node
    session.says(f"Asking node {node} if there's an active listener for protocol {name} ...")
    answer = session.api("GET", "health", "checks", "protocol-listener", name)
    if answer.status == 503:
        found = ", ".join(answer.value["protocols"])
        raise _failed(
            f"No listener for protocol {name} is active on node {node}. Found listeners for the "
            f"following protocols: {found}"
        )
    session.checked(answer)
    session.output.text(f"A listener for protocol {name} is running on node {node}.")


def _certificates(session: Session) -> None:
    within, unit = session.options.get("within", "4"), session.options.get("unit", "weeks")
    node = session.node
    session.says(f"Checking certificate expiration on node {node} ...")
    answer = session.api("GET", "health", "checks", "certificate-expiration", within, unit)
    if answer.status == 503:
        found = "\n".join(each["path"] for each in answer.value["expired"])
        raise _failed(f"Certificates on node {node} that expire within {within} {unit}:\n{found}")
    if answer.status == 400:
        raise Misused(f"Bad argument: {answer.reason}", ExitCode.DATA)
    session.checked(answer)
    session.output.text(f"No certificates are expiring within {within} {unit}.")


def _vhosts(session: Session) -> None:
    node = session.node
    session.says(f"Checking if all vhosts are running on node {node} ...")
    session.get("health", "checks", "virtual-hosts")
    session.output.text(f"Node {node} reported all vhosts as running")


def _node_health(session: Session) -> None:
    session.says(f"Timeout: 70 seconds ...\nChecking health of node {session.node} ...")
    found = session.get("healthchecks", "node")
    if found["status"] != "ok":
        raise _failed(f"Node {session.node} is unhealthy: {found['reason']}")
    session.output.text("Health check passed")


def _server_version(session: Session) -> None:
    session.says(f"Asking node {session.node} for its RabbitMQ version...")
    session.output.text(session.get("overview")["rabbitmq_version"])


def _memory(session: Session) -> None:
    [node] = session.get("nodes")
    session.says(f"Reporting memory breakdown on node {session.node}...")
    found = {"resident": node["mem_used"], "limit": node["mem_limit"]}
    lines = f"resident: {found['resident'] / 1e9:.4f} gb\nlimit: {found['limit'] / 1e9:.4f} gb"
    session.output.value(found, lines)


COMMANDS: Final = (
    Command("check_running", "", "Exits with a non-zero code if the broker is not running",
            _running, 0, 0, runs_stopped=True),
    Command("is_running", "", "Asks whether the broker is running", _is_running, 0, 0,
            runs_stopped=True),
    Command("is_booting", "", "Asks whether the broker is running", _is_running, 0, 0,
            runs_stopped=True),
    Command("check_alarms", "", "Exits with a non-zero code if there are alarms",
            lambda s: _alarms(s, False), 0, 0),
    Command("check_local_alarms", "", "Exits with a non-zero code if there are local alarms",
            lambda s: _alarms(s, True), 0, 0),
    Command("alarms", "", "Lists resource alarms", lambda s: _alarms(s, False), 0, 0),
    Command("check_port_connectivity", "", "Connects to every listener", _port_connectivity, 0, 0,
            frozenset({"address"})),
    Command("check_port_listener", "<port>", "Exits with a non-zero code if nobody listens there",
            _port_listener, 1, 1),
    Command("check_protocol_listener", "<protocol>",
            "Exits with a non-zero code if nobody listens for it", _protocol_listener, 1, 1),
    Command("check_certificate_expiration", "[--within <period>] [--unit <unit>]",
            "Checks the expiration date on the certificates of listeners", _certificates, 0, 0,
            frozenset({"within", "unit"})),
    Command("check_virtual_hosts", "", "Health check that checks if all vhosts are running",
            _vhosts, 0, 0),
    Command("node_health_check", "", "Performs several opinionated health checks", _node_health, 0,
            0),
    Command("server_version", "", "Displays server version on the target node", _server_version, 0,
            0),
    Command("memory_breakdown", "[--unit <unit>]", "Provides a memory usage breakdown", _memory, 0,
            0, frozenset({"unit"})),
)  # fmt: skip
