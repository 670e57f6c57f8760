"""Objects: vhosts, policies, parameters, vhost limits, and purging or deleting queues.

The rule: a command is one or two calls of the management API; texts differ from RabbitMQ's only
where RabbitMQ prints Erlang terms.
"""

import json
from typing import Any, Final

from arneb.ctl.exits import ExitCode, error, no_vhost
from arneb.ctl.people import limits_in
from arneb.ctl.session import TABLE_OPTIONS, Command, Misused, Session
from arneb.ctl.terms import Atom, Names

VHOST: Final = frozenset({"vhost"})
LISTED: Final = VHOST | TABLE_OPTIONS

MISSING: Final = "Parameter does not exist"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def value_in(text: str) -> Any:
    """Parse JSON from the command line. Raises :class:`.Failed`."""
    try:
        return json.loads(text)
    except ValueError:
        raise error(ExitCode.UNAVAILABLE, "JSON decoding error. Reason: badarg") from None


# Vhosts

_VHOST_COLUMNS: Final = {
    "name": lambda each: each["name"],
    "description": lambda each: each["description"],
    "tags": lambda each: Names(tuple(each["tags"])),
    "default_queue_type": lambda each: Atom(each["default_queue_type"]),
    "tracing": lambda each: each["tracing"],
    "cluster_state": lambda each: dict(each["cluster_state"]),
}


def _list_vhosts(session: Session) -> None:
    session.listed(
        _VHOST_COLUMNS, ("name",), lambda: list(session.get("vhosts")), "Listing vhosts ..."
    )


def _add_vhost(session: Session) -> None:
    name = session.arguments[0]
    session.says(f'Adding vhost "{name}" ...')
    given = session.options
    if session.api("GET", "vhosts", name).is_done and not given.keys() & _VHOST_OPTIONS:
        return  # it exists, and no option asks for a change
    body: dict[str, Any] = {"description": given.get("description", "")}
    body["tags"] = given.get("tags", "")
    if kind := given.get("default-queue-type"):
        body["default_queue_type"] = kind
    session.put("vhosts", name, body=body)


def _update_vhost(session: Session) -> None:
    name = session.arguments[0]
    if not (given := session.options.keys() & _VHOST_OPTIONS):
        wanted = ", ".join(f"--{each}" for each in sorted(_VHOST_OPTIONS))
        raise Misused(f"Bad argument: expected one of {wanted}")
    session.says(f'Updating metadata of vhost "{name}" ...')
    found = session.of(no_vhost(name), "GET", "vhosts", name)
    body = {key: found[key] for key in ("description", "tags", "default_queue_type", "metadata")}
    body |= {each.replace("-", "_"): session.options[each] for each in given}
    session.put("vhosts", name, body=body)


def _delete_vhost(session: Session) -> None:
    name = session.arguments[0]
    session.says(f'Deleting vhost "{name}" ...')
    session.of(no_vhost(name), "DELETE", "vhosts", name)


def _restart_vhost(session: Session) -> None:
    session.says(f"Trying to restart vhost '{session.vhost}' on node '{session.node}' ...")
    session.expect_vhost()
    session.checked(session.api("POST", "vhosts", session.vhost, "start", session.node))
    session.output.text(f"Vhost '{session.vhost}' is already running on node '{session.node}'")


def _trace(session: Session, on: bool) -> None:
    session.says(f'{"Starting" if on else "Stopping"} tracing for vhost "{session.vhost}" ...')
    answer = session.api("GET", "vhosts", session.vhost)
    if answer.status == 404:
        raise no_vhost(session.vhost)
    found = session.checked(answer).value
    body = {key: found[key] for key in ("description", "tags", "default_queue_type", "metadata")}
    session.put("vhosts", session.vhost, body={**body, "tracing": on})
    if session.get("vhosts", session.vhost)["tracing"] is not on:
        raise error(ExitCode.UNAVAILABLE, "this broker does not trace")
    session.output.text(f"Trace {'enabled' if on else 'disabled'} for vhost {session.vhost}")


# Policies


def _list_policies(session: Session, kind: str, what: str) -> None:
    session.says(f'Listing {what} for vhost "{session.vhost}" ...')
    session.expect_vhost()
    columns = ("vhost", "name", "pattern", "apply-to", "definition", "priority")
    found = sorted(session.get(kind, session.vhost), key=lambda each: each["priority"])
    rows = [
        [_json(each[name]) if name == "definition" else each[name] for name in columns]
        for each in found
    ]
    session.output.rows(columns, rows)


def _set_policy(session: Session, kind: str, what: str) -> None:
    name, pattern, text = session.arguments
    priority = session.options.get("priority", "0")
    session.says(
        f'Setting {what} "{name}" for pattern "{pattern}" to "{text}" with priority "{priority}" '
        f'for vhost "{session.vhost}" ...'
    )
    if not priority.lstrip("-").isdecimal():
        raise Misused(f"Bad argument: expected a number as --priority, got {priority}")
    session.expect_vhost()
    body = {
        "pattern": pattern,
        "definition": value_in(text),
        "priority": int(priority),
        "apply-to": session.options.get("apply-to", "all"),
    }
    session.put(kind, session.vhost, name, body=body)


def _clear(session: Session, banner: str, *parts: str) -> None:
    session.says(banner)
    answer = session.api("DELETE", *parts)
    if answer.status == 404:
        raise error(ExitCode.UNAVAILABLE, MISSING)
    session.checked(answer)


def _clear_policy(session: Session, kind: str, what: str) -> None:
    name = session.arguments[0]
    session.expect_vhost()
    banner = f'Clearing {what} "{name}" on vhost "{session.vhost}" ...'
    _clear(session, banner, kind, session.vhost, name)


# Parameters


def _list_parameters(session: Session) -> None:
    session.says(f'Listing runtime parameters for vhost "{session.vhost}" ...')
    session.expect_vhost()
    found = [each for each in session.get("parameters") if each["vhost"] == session.vhost]
    rows = [(each["component"], each["name"], _json(each["value"])) for each in found]
    session.output.rows(("component", "name", "value"), rows)


def _set_parameter(session: Session) -> None:
    component, name, text = session.arguments
    session.says(
        f'Setting runtime parameter "{name}" for component "{component}" to "{text}" '
        f'in vhost "{session.vhost}" ...'
    )
    session.expect_vhost()
    body = {"value": value_in(text)}
    session.put("parameters", component, session.vhost, name, body=body)


def _clear_parameter(session: Session) -> None:
    component, name = session.arguments
    banner = (
        f'Clearing runtime parameter "{name}" for component "{component}" '
        f'on vhost "{session.vhost}" ...'
    )
    _clear(session, banner, "parameters", component, session.vhost, name)


def _list_global_parameters(session: Session) -> None:
    session.says("Listing global runtime parameters ...")
    rows = [(each["name"], _json(each["value"])) for each in session.get("global-parameters")]
    session.output.rows(("name", "value"), rows)


def _set_global_parameter(session: Session) -> None:
    name, text = session.arguments
    session.says(f'Setting global runtime parameter "{name}" to "{text}" ...')
    session.put("global-parameters", name, body={"value": value_in(text)})


def _clear_global_parameter(session: Session) -> None:
    name = session.arguments[0]
    _clear(session, f'Clearing global runtime parameter "{name}" ...', "global-parameters", name)


def _set_cluster_name(session: Session) -> None:
    name = session.arguments[0]
    session.says(f"Setting cluster name to {name} ...")
    session.put("cluster-name", body={"name": name})


# Limits of vhosts


def _list_vhost_limits(session: Session) -> None:
    if "global" in session.options:
        session.says("Listing limits for all vhosts ...")
        rows = [(each["vhost"], _json(each["value"])) for each in session.get("vhost-limits")]
        session.output.rows(("vhost", "limits"), rows)
        return
    session.says(f'Listing limits for vhost "{session.vhost}" ...')
    session.expect_vhost()
    found = session.get("vhost-limits", session.vhost)
    text = _json(found[0]["value"]) if found else ""
    session.output.value({"node": session.node, "result": "ok", "value": text}, text)


def _set_vhost_limits(session: Session) -> None:
    text = session.arguments[0]
    session.says(f'Setting vhost limits to "{text}" for vhost "{session.vhost}" ...')
    session.expect_vhost()
    for key, value in limits_in(text).items():
        session.put("vhost-limits", session.vhost, key, body={"value": value})


def _clear_vhost_limits(session: Session) -> None:
    session.says(f'Clearing vhost "{session.vhost}" limits ...')
    session.expect_vhost()
    for each in ("max-connections", "max-queues"):
        answer = session.api("DELETE", "vhost-limits", session.vhost, each)
        if answer.status != 404:
            session.checked(answer)


# Queues


def _purge_queue(session: Session) -> None:
    name = session.arguments[0]
    session.says(f"Purging queue '{name}' in vhost '{session.vhost}' ...")
    answer = session.api("DELETE", "queues", session.vhost, name, "contents")
    if answer.status == 404:
        raise error(ExitCode.UNAVAILABLE, "not_found")
    session.checked(answer)


_CONDITIONS: Final = ("if-empty", "if-unused")


def _delete_queue(session: Session) -> None:
    name = session.arguments[0]
    query: dict[str, str] = {
        each: "true" for each in ("if-empty", "if-unused") if each in session.options
    }
    only = " and if ".join(each.replace("if-", "queue is ") for each in query)
    session.says(
        f"Deleting queue '{name}' on vhost '{session.vhost}'{f' if {only}' if only else ''} ..."
    )
    found = session.api("GET", "queues", session.vhost, name)
    if found.status == 404:
        raise error(ExitCode.USAGE, "Queue not found")
    ready = session.checked(found).value["messages_ready"]
    answer = session.api("DELETE", "queues", session.vhost, name, query=query)
    if answer.status == 400 and "in use" in answer.reason:
        raise error(ExitCode.USAGE, "Queue is in use")
    if answer.status == 400 and "not empty" in answer.reason:
        raise error(ExitCode.USAGE, "Queue is not empty")
    session.checked(answer)
    session.output.text(f"Queue was successfully deleted with {ready} ready messages")


_VHOST_OPTIONS: Final = frozenset({"description", "tags", "default-queue-type"})
_POLICY: Final = "[--vhost <vhost>] [--priority <priority>] [--apply-to <apply-to>]"
_POLICY_OPTIONS: Final = VHOST | {"priority", "apply-to"}
_OPERATOR: Final = ("operator-policies", "operator policy override")

COMMANDS: Final = (
    Command("list_vhosts", "[--no-table-headers] [<column>, ...]", "Lists virtual hosts",
            _list_vhosts, options=TABLE_OPTIONS),
    Command("add_vhost", "<vhost> [--description <description> --tags \"<tag1>,<tag2>,<...>\" "
            "--default-queue-type <quorum|classic|stream>]", "Creates a virtual host", _add_vhost,
            1, 1, _VHOST_OPTIONS),
    Command("update_vhost_metadata", "<vhost> [--description <description>] "
            "[--tags \"<tag1>,<tag2>,<...>\"] [--default-queue-type <quorum|classic|stream>]",
            "Updates metadata (tags, description, default queue type) of a virtual host",
            _update_vhost, 1, 1, _VHOST_OPTIONS),
    Command("delete_vhost", "<vhost>", "Deletes a virtual host", _delete_vhost, 1, 1),
    Command("restart_vhost", "[--vhost <vhost>]",
            "Restarts a failed vhost data stores and queues", _restart_vhost, 0, 0, VHOST),
    Command("trace_on", "[--vhost <vhost>]", "Starts tracing", lambda s: _trace(s, True), 0, 0,
            VHOST),
    Command("trace_off", "[--vhost <vhost>]", "Stops tracing", lambda s: _trace(s, False), 0, 0,
            VHOST),
    Command("list_policies", "[--vhost <vhost>] [--no-table-headers]",
            "Lists all policies in a virtual host",
            lambda s: _list_policies(s, "policies", "policies"), 0, 0, LISTED),
    Command("set_policy", f"{_POLICY} <name> <pattern> <definition>", "Sets or updates a policy",
            lambda s: _set_policy(s, "policies", "policy"), 3, 3, _POLICY_OPTIONS),
    Command("clear_policy", "[--vhost <vhost>] <name>", "Clears (removes) a policy",
            lambda s: _clear_policy(s, "policies", "policy"), 1, 1, VHOST),
    Command("list_operator_policies", "[--vhost <vhost>] [--no-table-headers]",
            "Lists operator policy overrides for a virtual host",
            lambda s: _list_policies(s, _OPERATOR[0], "operator policy overrides"), 0, 0, LISTED),
    Command("set_operator_policy", f"{_POLICY} <name> <pattern> <definition>",
            "Sets an operator policy that overrides a subset of arguments in user policies",
            lambda s: _set_policy(s, *_OPERATOR), 3, 3, _POLICY_OPTIONS),
    Command("clear_operator_policy", "[--vhost <vhost>] <name>", "Clears an operator policy",
            lambda s: _clear_policy(s, _OPERATOR[0], "operator policy"), 1, 1, VHOST),
    Command("list_parameters", "[--vhost <vhost>] [--no-table-headers]",
            "Lists runtime parameters for a virtual host", _list_parameters, 0, 0, LISTED),
    Command("set_parameter", "[--vhost <vhost>] <component_name> <name> <value>",
            "Sets a runtime parameter.", _set_parameter, 3, 3, VHOST),
    Command("clear_parameter", "[--vhost <vhost>] <component_name> <name>",
            "Clears a runtime parameter.", _clear_parameter, 2, 2, VHOST),
    Command("list_global_parameters", "[--no-table-headers]", "Lists global runtime parameters",
            _list_global_parameters, 0, 0, TABLE_OPTIONS),
    Command("set_global_parameter", "<name> <value>", "Sets a runtime parameter.",
            _set_global_parameter, 2, 2),
    Command("clear_global_parameter", "<name>", "Clears a global runtime parameter",
            _clear_global_parameter, 1, 1),
    Command("set_cluster_name", "<name>", "Sets the cluster name", _set_cluster_name, 1, 1),
    Command("list_vhost_limits", "[--vhost <vhost>] [--global] [--no-table-headers]",
            "Displays configured virtual host limits", _list_vhost_limits, 0, 0,
            LISTED | {"global"}),
    Command("set_vhost_limits", "[--vhost <vhost>] <definition>", "Sets virtual host limits",
            _set_vhost_limits, 1, 1, VHOST),
    Command("clear_vhost_limits", "[--vhost <vhost>]", "Clears virtual host limits",
            _clear_vhost_limits, 0, 0, VHOST),
    Command("purge_queue", "[--vhost <vhost>] <queue>",
            "Purges a queue (removes all messages in it)", _purge_queue, 1, 1, VHOST),
    Command("delete_queue", "[--vhost <vhost>] <queue_name> [--if-empty|-e] [--if-unused|-u]",
            "Deletes a queue", _delete_queue, 1, 1, VHOST | {"if-empty", "if-unused"}),
)  # fmt: skip
