"""How documents of the management API are compared: by their fields and the fields' types.

The rule: RabbitMQ's document is the reference. A field that only one of the brokers has is named
here with the reason, by the end of its path.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

ERLANG: Final = "of Erlang, Mnesia or RabbitMQ's store"
TRIMMED: Final = "3.13 leaves it out of lists"
NEWER: Final = "new in 3.13"
IDLE: Final = "appears after some idle seconds; when those begin differs"

LEFT_OUT: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "backing_queue_status.avg_ack_egress_rate", "backing_queue_status.avg_ack_ingress_rate",
            "backing_queue_status.avg_egress_rate", "backing_queue_status.avg_ingress_rate",
            "backing_queue_status.delta", "backing_queue_status.next_deliver_seq_id",
            "backing_queue_status.next_seq_id", "backing_queue_status.q1",
            "backing_queue_status.q2", "backing_queue_status.q3", "backing_queue_status.q4",
            "backing_queue_status.target_ram_count",
        ),
        ERLANG,
    ),
    "single_active_consumer_ctag": "a mistake of 3.10 for single_active_consumer_tag",
    "idle_since": IDLE,
    "contexts[].protocol": "only the Prometheus listener has it",
    "definitions/:vhost.policies[].vhost": TRIMMED,
    "definitions/:vhost.parameters[].vhost": TRIMMED,
    "auth.uaa_location": "only for 3.10's own page",
    "auth.uaa_client_id": "only for 3.10's own page",
    "auth.enable_uaa": "only for 3.10's own page",
    "message_stats.disk_reads": ERLANG,
    "message_stats.disk_reads_details": ERLANG,
    "message_stats.disk_writes": ERLANG,
    "message_stats.disk_writes_details": ERLANG,
    "user_who_performed_action": "the creator of an exchange is not stored",
}  # fmt: skip

TRIMMED_OF_LISTS: Final = frozenset(
    {
        "garbage_collection", "exclusive_consumer_tag", "single_active_consumer_tag",
        "head_message_timestamp", "recoverable_slaves", "policy", "operator_policy",
    }
)  # fmt: skip

MORE: Final[Mapping[str, str]] = {
    "idle_since": IDLE,
    "is_internal_user": NEWER,
    "being_drained": NEWER,
    "single_active_consumer_tag": "3.10 calls it single_active_consumer_ctag for quorum queues",
    "exclusive_consumer_tag": "null for quorum queues",
    "metadata.default_queue_type": NEWER,
    "messages_persistent": "for streams",
    "consumer_timeout": NEWER,
    "connections/:connection.pid": "rabbitmqctl shows it",
    "recv_oct": "for vhosts, once a connection has closed",
    "recv_oct_details": "for vhosts, once a connection has closed",
    "send_oct": "for vhosts, once a connection has closed",
    "send_oct_details": "for vhosts, once a connection has closed",
    "message_stats": "once something has been counted",
    "message_stats.publish_out": "0, where RabbitMQ has counted nothing",
    "message_stats.publish_out_details": "0, where RabbitMQ has counted nothing",
    **{
        f"vhosts/:vhost.message_stats.{each}{details}": "RabbitMQ shows it some seconds later"
        for each in (
            "ack",
            "deliver",
            "deliver_get",
            "deliver_no_ack",
            "get",
            "get_empty",
            "get_no_ack",
            "redeliver",
        )
        for details in ("", "_details")
    },
    "blocked_status": NEWER,
    "auth.oauth_enabled": NEWER,
    "definitions/:vhost.rabbitmq_version": NEWER,
    "definitions/:vhost.product_name": NEWER,
    "definitions/:vhost.product_version": NEWER,
    **{
        f"stream.{each}": "RabbitMQ has it for other types of queues"
        for each in (
            "consumer_capacity",
            "consumer_utilisation",
            "leader",
            "message_bytes",
            "message_bytes_persistent",
            "message_bytes_ram",
            "message_bytes_ready",
            "message_bytes_unacknowledged",
            "messages_ram",
        )
    },
    "is_op_policy_updating_enabled": NEWER,
    "connections[].pid": "rabbitmqctl shows it",
    "connections.items[].pid": "rabbitmqctl shows it",
    "connections/name.pid": "rabbitmqctl shows it",
    "queues[].policy": NEWER,
    "vhosts[].default_queue_type": NEWER,
    "vhosts[].description": NEWER,
    "vhosts[].metadata": NEWER,
    "vhosts[].tags": NEWER,
}

OTHERWISE: Final[Mapping[str, str]] = {
    "/shovels/vhost/:vhost/:name": "a list of one in 3.10",
    "/nodes/:node/memory.memory": "text, which clients accept: no Erlang memory to break down",
}
"""Values of another type."""

ANY_NUMBER: Final = ("rate", "avg", "avg_rate", "consumer_capacity", "consumer_utilisation")

OPEN: Final = (
    "arguments",
    "client_properties",
    "definition",
    "socket_opts",
    "cluster_state",
    "open_files",
    "readers",
)
"""Objects whose fields are chosen by somebody else, such as a client."""

NODE_ERLANG: Final = ("io_", "mnesia_", "msg_store_", "queue_index_")
"""Prefixes of fields of nodes."""


def kind(value: Any, name: str) -> str:
    """The type of a value, as far as it matters to a client."""
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float() if name in ANY_NUMBER:
            return "number"
        case int():
            return "int"
        case float():
            return "float"
        case str():
            return "text"
        case list():
            return "list"
    return "object"


def differences(ours: Any, theirs: Any, path: str = "", *, in_list: bool = False) -> Iterator[str]:
    """The differences between our document and RabbitMQ's that are not named here."""
    name = path.rpartition(".")[2].removesuffix("[]")
    mine, wanted = kind(ours, name), kind(theirs, name)
    if name == "value":
        return  # the value of a parameter, which may be anything
    if path in OTHERWISE or theirs == "undefined":
        return
    if mine != wanted:
        yield f"{path}: {mine} {ours!r:.60} for {wanted} {theirs!r:.60}"
    elif mine == "list":
        if ours and theirs:
            yield from differences(ours[0], theirs[0], f"{path}[]", in_list=in_list)
    elif mine == "object" and name not in OPEN:
        for key in theirs.keys() - ours.keys():
            if not _is_left_out(f"{path}.{key}", in_list=in_list):
                yield f"{path}.{key}: missing, {theirs[key]!r:.60}"
        for key in ours.keys() - theirs.keys():
            if not any(f"{path}.{key}".endswith((f".{each}", f"/{each}")) for each in MORE):
                yield f"{path}.{key}: more, {ours[key]!r:.60}"
        for key in sorted(ours.keys() & theirs.keys()):
            yield from differences(ours[key], theirs[key], f"{path}.{key}", in_list=in_list)


def _is_left_out(path: str, *, in_list: bool) -> bool:
    name = path.rpartition(".")[2]
    if path.startswith("/nodes") and name.startswith(NODE_ERLANG):
        return True
    if in_list and name in TRIMMED_OF_LISTS:
        return True
    return any(path.endswith((f".{each}", f"/{each}")) for each in LEFT_OUT)


def by_name(document: Any) -> Any:
    """The document with similar items in a fixed order, so that corresponding ones are compared."""
    if isinstance(document, dict) and "items" in document:
        return document | {"items": by_name(document["items"])}
    if isinstance(document, list) and document and isinstance(document[0], dict):
        return sorted((each for each in document if not _is_direct(each)), key=_rank)
    return document


def _is_direct(item: dict[str, Any]) -> bool:
    """Whether it belongs to a connection inside RabbitMQ, such as those of its shovels, which is
    named after its Erlang process."""
    details = item.get("channel_details", item)
    return isinstance(details, dict) and str(details.get("name", "")).startswith("<")


def _rank(item: dict[str, Any]) -> tuple[str, ...]:
    place = item.get("name", "")
    if "connection_details" in item:
        place = str(item["number"])
    return (
        str(item.get("vhost", "")),
        str(place),
        str(item.get("source", "")),
        str(item.get("destination", item.get("consumer_tag", item.get("component", "")))),
    )
