"""Lists: queues, exchanges, bindings, connections, channels and consumers.

The rule: a column is a function of the management API's document; its name is RabbitMQ's.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final
from zlib import crc32

from arneb.ctl.session import TABLE_OPTIONS, Command, Misused, Session
from arneb.ctl.terms import Address, AmqpTable, Atom, Version

Document = dict[str, Any]
Column = Callable[[Document], Any]

SEARCHED: Final = frozenset({"vhost"}) | TABLE_OPTIONS
FILTERS: Final = frozenset({"online", "offline", "local"})


def field(name: str) -> Column:
    """Return a column with that field; None where it is missing."""
    return lambda document: document.get(name)


def fields(text: str) -> dict[str, Column]:
    """Return columns that are fields of the same names."""
    return {name: field(name) for name in text.split()}


def table(name: str) -> Column:
    """Return a column with that field, an AMQP table."""
    return lambda document: AmqpTable(document.get(name) or {})


def process_id(node: str, *numbers: int) -> str:
    """Return an id in the form of an Erlang process id: a unique text without blanks."""
    first, second = (*numbers, 0)[:2]
    return f"<{node}.1.{first}.{second}>"


def _queue_pid(document: Document) -> str:
    return process_id(document["node"], crc32(f"{document['vhost']}/{document['name']}".encode()))


QUEUE_COLUMNS: Final[Mapping[str, Column]] = {
    **fields(
        "name durable auto_delete policy operator_policy exclusive_consumer_tag messages_ready "
        "messages_unacknowledged messages messages_ready_ram messages_unacknowledged_ram "
        "messages_ram messages_persistent message_bytes message_bytes_ready "
        "message_bytes_unacknowledged message_bytes_ram message_bytes_persistent "
        "head_message_timestamp disk_reads disk_writes consumers consumer_utilisation "
        "consumer_capacity memory type leader members online exclusive"
    ),
    "arguments": table("arguments"),
    "effective_policy_definition": lambda each: each.get("effective_policy_definition") or {},
    "pid": _queue_pid,
    "owner_pid": lambda each: each.get("owner_pid"),
    "exclusive_consumer_pid": lambda each: None,
    "slave_pids": lambda each: None,
    "synchronised_slave_pids": lambda each: None,
    "mirror_pids": lambda each: None,
    "synchronised_mirror_pids": lambda each: None,
    "state": lambda each: Atom(str(each.get("state", "running"))),
    "vhost": field("vhost"),
}

EXCHANGE_COLUMNS: Final[Mapping[str, Column]] = {
    **fields("name type durable auto_delete internal policy"),
    "arguments": table("arguments"),
}

BINDING_COLUMNS: Final[Mapping[str, Column]] = {
    "source_name": field("source"),
    "source_kind": lambda each: Atom("exchange"),
    "destination_name": field("destination"),
    "destination_kind": lambda each: Atom(each["destination_type"]),
    "routing_key": field("routing_key"),
    "arguments": table("arguments"),
    "vhost": field("vhost"),
}

CONNECTION_COLUMNS: Final[Mapping[str, Column]] = {
    **fields(
        "name port peer_port ssl ssl_protocol ssl_key_exchange ssl_cipher ssl_hash "
        "peer_cert_subject peer_cert_issuer peer_cert_validity channels auth_mechanism user "
        "vhost timeout frame_max channel_max recv_oct recv_cnt send_oct send_cnt send_pend "
        "connected_at pid node user_provided_name"
    ),
    "connection_name": field("user_provided_name"),
    "host": lambda each: Address(each["host"]),
    "peer_host": lambda each: Address(each["peer_host"]),
    "state": lambda each: Atom(each["state"]),
    "protocol": lambda each: Version((0, 9, 1)),
    "client_properties": table("client_properties"),
}

CHANNEL_COLUMNS: Final[Mapping[str, Column]] = {
    **fields(
        "name number user vhost transactional confirm consumer_count messages_unacknowledged "
        "messages_uncommitted acks_uncommitted messages_unconfirmed prefetch_count state "
        "global_prefetch_count pid connection"
    ),
}

CONSUMER_COLUMNS: Final[Mapping[str, Column]] = {
    **fields("consumer_tag ack_required prefetch_count active activity_status channel_pid"),
    "queue_name": lambda each: each["queue"]["name"],
    "arguments": table("arguments"),
    "exclusive": field("exclusive"),
}


def _of_vhost(session: Session, kind: str) -> list[Document]:
    """Return the vhost's objects of a kind; none for a missing vhost, as in RabbitMQ."""
    answer = session.api("GET", kind, session.vhost)
    return [] if answer.status == 404 else list(session.checked(answer).value)


def _queues(session: Session) -> list[Document]:
    chosen = [each for each in FILTERS if each in session.options]
    if len(chosen) > 1:
        raise Misused("Bad argument: only one of --online, --offline, --local is allowed")
    if chosen == ["offline"]:
        return []
    found = _of_vhost(session, "queues")
    if any(each["exclusive"] for each in found):
        owners = {each["name"]: each["pid"] for each in session.get("connections")}
        for each in found:
            owner = each.get("owner_pid_details", {}).get("name")
            each["owner_pid"] = owners.get(owner)
    return found


def _list_queues(session: Session) -> None:
    def rows() -> list[Document]:
        session.says("Timeout: 60.0 seconds ...")
        session.says(f"Listing queues for vhost {session.vhost} ...")
        return _queues(session)

    session.listed(QUEUE_COLUMNS, ("name", "messages"), rows)


def _list_unresponsive(session: Session) -> None:
    def rows() -> list[Document]:
        session.says(f"Listing unresponsive queues for vhost {session.vhost} ...")
        session.get("health", "checks", "virtual-hosts")
        return []

    session.listed(QUEUE_COLUMNS, ("name",), rows)


def _list_exchanges(session: Session) -> None:
    session.listed(
        EXCHANGE_COLUMNS, ("name", "type"), partial(_of_vhost, session, "exchanges"),
        f"Listing exchanges for vhost {session.vhost} ...",
    )  # fmt: skip


def _list_bindings(session: Session) -> None:
    default = tuple(BINDING_COLUMNS)[:-1]
    session.listed(
        BINDING_COLUMNS, default, partial(_of_vhost, session, "bindings"),
        f"Listing bindings for vhost {session.vhost}...",
    )  # fmt: skip


def _list_connections(session: Session) -> None:
    default = ("user", "peer_host", "peer_port", "state")
    session.listed(
        CONNECTION_COLUMNS, default, partial(session.get, "connections"), "Listing connections ..."
    )


def _channel_pid(document: Document, connections: Mapping[str, str]) -> str:
    """Return the connection's id with the channel's number as its last part."""
    owner = connections.get(document["connection_name"], "")
    return f"{owner.removesuffix('.0>')}.{document['number']}>" if owner else ""


def _list_channels(session: Session) -> None:
    def rows() -> list[Document]:
        found = session.get("channels")
        connections = {each["name"]: each["pid"] for each in session.get("connections")}
        for each in found:
            details = {"connection_name": each["connection_details"]["name"], **each}
            each["connection"] = connections.get(details["connection_name"])
            each["pid"] = _channel_pid(details, connections)
        return list(found)

    default = ("pid", "user", "consumer_count", "messages_unacknowledged")
    session.listed(CHANNEL_COLUMNS, default, rows, "Listing channels ...")


def _list_consumers(session: Session) -> None:
    def rows() -> list[Document]:
        session.says(f"Listing consumers in vhost {session.vhost} ...")
        found = _of_vhost(session, "consumers")
        connections = {each["name"]: each["pid"] for each in session.get("connections")}
        for each in found:
            each["channel_pid"] = _channel_pid(each["channel_details"], connections)
        return found

    default = (
        "queue_name", "channel_pid", "consumer_tag", "ack_required", "prefetch_count", "active",
        "arguments",
    )  # fmt: skip
    session.listed(CONSUMER_COLUMNS, default, rows)


_COLUMNS: Final = "[--no-table-headers] [<column>, ...]"

COMMANDS: Final = (
    Command("list_queues", f"[--vhost <vhost>] [--online] [--offline] [--local] {_COLUMNS}",
            "Lists queues and their properties", _list_queues, options=SEARCHED | FILTERS),
    Command("list_unresponsive_queues", f"[--vhost <vhost>] {_COLUMNS}",
            "Tests queues to respond within timeout. Lists those which did not respond",
            _list_unresponsive, options=SEARCHED | FILTERS | {"queue-timeout"}),
    Command("list_exchanges", f"[--vhost <vhost>] {_COLUMNS}", "Lists exchanges",
            _list_exchanges, options=SEARCHED),
    Command("list_bindings", f"[--vhost <vhost>] {_COLUMNS}", "Lists all bindings on a vhost",
            _list_bindings, options=SEARCHED),
    Command("list_connections", _COLUMNS, "Lists AMQP 0.9.1 connections for the node",
            _list_connections, options=TABLE_OPTIONS),
    Command("list_channels", _COLUMNS, "Lists all channels in the node", _list_channels,
            options=TABLE_OPTIONS),
    Command("list_consumers", f"[--vhost <vhost>] {_COLUMNS}", "Lists all consumers for a vhost",
            _list_consumers, options=SEARCHED),
)  # fmt: skip
