"""Normalises observations: removes what may differ between two brokers that behave the same, and
nothing else.

The rule: every function here is named after what differs and says why it may. Each difference in
``conformance/DIFFERENCES.md`` that random programs can run into has a function here too.
"""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from conformance.differential.link import Event

Normalised = dict[str, Any]

GENERATED_NAME: Final = re.compile(r"amq\.(gen-|ctag-|rabbitmq\.reply-to\.)[\w+/=.-]+")
CLOSES: Final = ("Channel.Close", "Connection.Close")
INTERNAL_ERROR: Final = 541


def normalise(
    observation: dict[str, Any],
    prefix: str,
    connection_of: Callable[[str], str],
    generated: dict[str, str],
    *,
    quorum: bool,
    stream: bool,
) -> Normalised:
    """An observation that is equal for equal behaviour. ``connection_of`` maps a channel's place to
    that of its connection. ``generated`` maps names that the broker chose to names used here, and
    grows as new ones appear. ``quorum`` and ``stream``: there may be queues of that type."""
    seen: Normalised = {}
    observation = without_late_deliveries(observation, connection_of)
    for place, events in observation.items():
        if place == "queues":
            seen[place] = events
        else:
            seen[place] = by_kind([_plain(event, prefix, generated) for event in events])
    if quorum:
        without_consumer_counts(seen)
    if stream:
        without_counts(seen)
    return seen


def without_late_deliveries(
    observation: dict[str, Any], connection_of: Callable[[str], str]
) -> dict[str, Any]:
    """A connection that the broker closes may still receive messages requeued by its own channels,
    which end one after the other. The client has no use for them."""
    closed = {
        place
        for place, events in observation.items()
        if place != "queues" and any(event.name == "Connection.Close" for event in events)
    }
    kept: dict[str, Any] = {}
    for place, events in observation.items():
        if place != "queues" and closed and connection_of(place) in closed:
            events = [event for event in events if event.name != "Basic.Deliver"]
        if place == "queues" or events:
            kept[place] = events
    return kept


def without_consumer_counts(seen: Normalised) -> None:
    """A quorum queue of RabbitMQ counts a channel that has not acknowledged a ``basic.get`` as a
    consumer."""
    for kinds in seen.values():
        for name, fields, *_ in kinds.get("said", ()):
            if name == "Queue.DeclareOk":
                fields.pop("consumer_count", None)
    queues = seen.get("queues", {})
    seen["queues"] = {name: _ready(state) for name, state in queues.items()}


def without_counts(seen: Normalised) -> None:
    """RabbitMQ takes the number of messages in a stream from counters that may be seconds
    behind."""
    for kinds in seen.values():
        for name, fields, *_ in kinds.get("said", ()):
            if name in ("Queue.DeclareOk", "Queue.DeleteOk"):
                fields.pop("message_count", None)
    queues = seen.get("queues", {})
    seen["queues"] = {
        name: state[1:] if isinstance(state, tuple) else state for name, state in queues.items()
    }


def _ready(state: Any) -> Any:
    return state[:1] if isinstance(state, tuple) else state


def by_kind(events: list[Event]) -> dict[str, Any]:
    """Unsolicited methods are ordered only within their kind, because in RabbitMQ each kind has a
    process of its own.

    Answers and returns stay in one order, and deliveries in one order per consumer. Confirms are a
    set, because RabbitMQ confirms out of order.
    """
    kinds: dict[str, Any] = {}
    for event in events:
        match event.name:
            case "Basic.Deliver":
                consumer = f"to {event.fields.pop('consumer_tag')}"
                kinds.setdefault(consumer, []).append(_content(event))
            case "Basic.Ack" | "Basic.Nack":
                confirm = event.name, event.fields["delivery_tag"]
                kinds.setdefault("confirms", []).append(confirm)
            case "Basic.Cancel":
                kinds.setdefault("cancelled", []).append(event.fields["consumer_tag"])
            case "Basic.GetOk" | "Basic.Return":
                kinds.setdefault("said", []).append((event.name, *_content(event)))
            case _:
                kinds.setdefault("said", []).append((event.name, event.fields))
    if confirmed_before_returned(events):
        kinds["confirmed before it was returned"] = True
    if "confirms" in kinds:
        kinds["confirms"].sort()
    if "cancelled" in kinds:
        kinds["cancelled"].sort()
    return kinds


def confirmed_before_returned(events: list[Event]) -> bool:
    """Whether messages of a step, which are all routed alike, were confirmed before they were
    returned."""
    names = [event.name for event in events]
    if "Basic.Return" not in names:
        return False
    ahead = 0
    for name in names:
        ahead += (name == "Basic.Ack") - (name == "Basic.Return")
        if ahead > 0:
            return True
    return False


def broke_down(outputs: tuple[Normalised, Normalised]) -> bool:
    """Whether RabbitMQ failed with an internal error where the other broker only refused;
    ``DIFFERENCES.md`` says where."""
    return INTERNAL_ERROR in _closes(outputs[0]) and bool(_closes(outputs[1]) - {INTERNAL_ERROR})


def _closes(output: Normalised) -> set[int]:
    """The codes with which channels and connections were closed."""
    return {
        fields["reply_code"]
        for place, kinds in output.items()
        if place != "queues"
        for name, fields, *_ in kinds.get("said", ())
        if name in CLOSES
    }


def shared_out_otherwise(outputs: tuple[Normalised, Normalised]) -> bool:
    """Whether only the order differs in which several consumers got the same messages.

    Queues are independent of each other in RabbitMQ too: if two of them have something for one
    channel at the same time, either may come first. But nobody may get more or less.
    """
    return len(_shares(outputs[0])[0]) > 1 and came_back_in_another_order(outputs)


def came_back_in_another_order(outputs: tuple[Normalised, Normalised]) -> bool:
    """Whether only the order differs in which the same messages were delivered.

    ``DIFFERENCES.md``: when several consumers return messages at once, RabbitMQ requeues those of
    one consumer after those of another, and a waiting consumer gets them in that order.
    """
    (shares, rest), (other_shares, other_rest) = map(_shares, outputs)
    sizes, other_sizes = sorted(map(len, shares)), sorted(map(len, other_shares))
    same = rest == other_rest and sizes == other_sizes
    return same and _pooled(shares) == _pooled(other_shares)


def came_back_otherwise(outputs: tuple[Normalised, Normalised]) -> bool:
    """Whether only the identity of the delivered messages differs, not how many there were and who
    got them.

    This is for quorum queues to which something was returned: ``DIFFERENCES.md`` says that RabbitMQ
    requeues it at another place than Arneb.
    """
    (shares, rest), (other_shares, other_rest) = map(_shares, outputs)
    return _numbers_only(rest) == _numbers_only(other_rest) and sorted(map(len, shares)) == sorted(
        map(len, other_shares)
    )


def went_round_a_dying_connection(outputs: tuple[Normalised, Normalised]) -> bool:
    """Whether only the deliveries, and the number of ready messages, differ.

    This is for quorum queues and connections that end. In RabbitMQ, what one channel returns is
    delivered to the next channel even if that one is ending too, and so comes one delivery closer
    to the limit.
    """
    rests = [_shares(each)[1] for each in outputs]
    return _without_ready(rests[0]) == _without_ready(rests[1])


def _without_ready(rest: Normalised) -> Normalised:
    queues = rest.get("queues", {})
    plain = {
        name: state[1:] if isinstance(state, tuple) else state for name, state in queues.items()
    }
    return rest | {"queues": plain}


def raced_for_a_window(outputs: tuple[Normalised, Normalised]) -> bool:
    """Whether only the turns differ that consumers with a shared global prefetch were given.

    In RabbitMQ the queues ask one process for capacity, each when it is scheduled, and those that
    were refused are notified in random order.
    """
    (shares, rest), (other_shares, other_rest) = map(_shares, outputs)
    numbers, other_numbers = sum(map(len, shares)), sum(map(len, other_shares))
    return numbers == other_numbers and _ready_in_all(rest) == _ready_in_all(other_rest)


def _ready_in_all(rest: Normalised) -> Normalised:
    """The observation with the ready messages of all queues added up."""
    queues = rest.get("queues", {})
    counts = [state[0] for state in queues.values() if isinstance(state, tuple)]
    return _without_ready(rest) | {"ready": sum(counts)}


def _numbers_only(rest: Normalised) -> Normalised:
    """The observation without the identity of the messages that ``basic.get`` returned."""
    plain = dict(rest)
    for place, kinds in rest.items():
        if place != "queues" and "said" in kinds:
            said = [(item[0],) if item[0] == "Basic.GetOk" else item for item in kinds["said"]]
            plain[place] = kinds | {"said": said}
    return plain


def _shares(output: Normalised) -> tuple[list[list[Any]], Normalised]:
    """What each consumer got, and everything else."""
    shares: list[list[Any]] = []
    rest: Normalised = {}
    for place, kinds in output.items():
        rest[place] = kinds
        if place != "queues":
            shares += (what for kind, what in kinds.items() if kind.startswith("to "))
            rest[place] = {kind: what for kind, what in kinds.items() if kind[:3] != "to "}
    return shares, {place: kinds for place, kinds in rest.items() if kinds}


def _pooled(shares: list[list[Any]]) -> list[str]:
    """All deliveries together, without their tags."""
    return sorted(repr(content[1:]) for share in shares for content in share)


def without_last_deaths(properties: Any) -> Any:
    """RabbitMQ has the ``x-last-death-*`` headers since 3.13, the version that Arneb claims to
    be."""
    if not properties or "headers" not in properties:
        return properties
    headers = properties["headers"].items()
    kept = {name: value for name, value in headers if not name.startswith("x-last-death-")}
    return properties | {"headers": kept}


def with_older_deaths_in_any_order(properties: Any) -> Any:
    """RabbitMQ reverses the older entries each time that a message dies (``DIFFERENCES.md``). The
    order of the fields within an entry is still compared."""
    deaths = (properties or {}).get("headers", {}).get("x-death")
    if not isinstance(deaths, list) or not deaths:
        return properties
    latest, *older = (list(each.items()) if isinstance(each, dict) else each for each in deaths)
    deaths = [latest, *sorted(older, key=repr)]
    return properties | {"headers": properties["headers"] | {"x-death": deaths}}


def _content(event: Event) -> tuple[Any, ...]:
    fields = dict(event.fields)
    data = event.body.decode()
    if len(data) > 40:
        data = f"{data[:10]}... ({len(data)})"
    properties = with_older_deaths_in_any_order(without_last_deaths(event.properties))
    return fields.pop("delivery_tag", None), data, fields, properties


def _plain(event: Event, prefix: str, generated: dict[str, str]) -> Event:
    """Names made up by a program or a broker, and times, are not part of the behaviour."""

    def plain(value: Any) -> Any:
        match value:
            case str():
                return GENERATED_NAME.sub(numbered, value.replace(prefix, ""))
            case dict():
                return {key: plain(inner) for key, inner in value.items()}
            case list():
                return [plain(inner) for inner in value]
            case datetime():
                return "<time>"
            case _:
                return value

    def numbered(name: re.Match[str]) -> str:
        return generated.setdefault(name[0], f"<{name[1]}{len(generated) + 1}>")

    return Event(event.name, plain(event.fields), plain(event.properties), event.body)
