"""What may differ between two brokers that behave the same, and nothing else, is normalised.

The rule: every function here has the name of what differs and says why it may. A difference
of ``conformance/DIFFERENCES.md`` that random programs can meet has its function here too.
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
    """An observation in which equal behaviour is equal. ``connection_of``: a channel's place to
    that of its connection; ``generated``: what names of the broker's own are called here, which
    grows as they come; ``quorum``, ``stream``: there may be queues of that type."""
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
    """A connection that the broker closes may still get what comes back from its own channels,
    while these go down one after the other; the client has no use for it."""
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
    """A quorum queue of RabbitMQ counts who owes it an answer to ``basic.get`` as a consumer."""
    for kinds in seen.values():
        for name, fields, *_ in kinds.get("said", ()):
            if name == "Queue.DeclareOk":
                fields.pop("consumer_count", None)
    queues = seen.get("queues", {})
    seen["queues"] = {name: _ready(state) for name, state in queues.items()}


def without_counts(seen: Normalised) -> None:
    """RabbitMQ takes how many messages a stream has from counters that may be seconds late."""
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
    """What comes unasked is ordered by its own kind only: each has its own process in RabbitMQ.

    Answers and returns stay in one order, deliveries in one order for each consumer. Confirms
    are a set: RabbitMQ confirms out of order.
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
    """Whether a step's messages, which are routed alike, were confirmed before they came back."""
    names = [event.name for event in events]
    if "Basic.Return" not in names:
        return False
    ahead = 0
    for name in names:
        ahead += (name == "Basic.Ack") - (name == "Basic.Return")
        if ahead > 0:
            return True
    return False


def broke_down(said: tuple[Normalised, Normalised]) -> bool:
    """Whether RabbitMQ failed at what the other only refused: ``DIFFERENCES.md`` says at what."""
    return INTERNAL_ERROR in _closes(said[0]) and bool(_closes(said[1]) - {INTERNAL_ERROR})


def _closes(said: Normalised) -> set[int]:
    """The codes with which channels and connections were closed."""
    return {
        fields["reply_code"]
        for place, kinds in said.items()
        if place != "queues"
        for name, fields, *_ in kinds.get("said", ())
        if name in CLOSES
    }


def shared_out_otherwise(said: tuple[Normalised, Normalised]) -> bool:
    """Whether only the order differs in which several consumers got the same messages.

    Queues are independent of each other in RabbitMQ too: of two that have something for one
    channel at the same time, either may be the first. Nobody may get more or less, though.
    """
    return len(_shares(said[0])[0]) > 1 and came_back_in_another_order(said)


def came_back_in_another_order(said: tuple[Normalised, Normalised]) -> bool:
    """Whether only the order differs in which the same messages were given out.

    ``DIFFERENCES.md``: what several consumers gave back at once goes back one consumer after
    the other in RabbitMQ, and a waiting one gets it in that order.
    """
    (shares, rest), (other_shares, other_rest) = map(_shares, said)
    sizes, other_sizes = sorted(map(len, shares)), sorted(map(len, other_shares))
    same = rest == other_rest and sizes == other_sizes
    return same and _pooled(shares) == _pooled(other_shares)


def came_back_otherwise(said: tuple[Normalised, Normalised]) -> bool:
    """Whether only which messages were given out differs, not how many and to whom.

    For quorum queues from which something came back: ``DIFFERENCES.md`` says that RabbitMQ puts
    it elsewhere than Arneb.
    """
    (shares, rest), (other_shares, other_rest) = map(_shares, said)
    return _numbers_only(rest) == _numbers_only(other_rest) and sorted(map(len, shares)) == sorted(
        map(len, other_shares)
    )


def went_round_a_dying_connection(said: tuple[Normalised, Normalised]) -> bool:
    """Whether only what was given out, and how much is ready, differs.

    For quorum queues and connections that end: what one channel gives back goes to the next one
    in RabbitMQ, though that ends too, and is a delivery nearer to the limit.
    """
    rests = [_shares(each)[1] for each in said]
    return _without_ready(rests[0]) == _without_ready(rests[1])


def _without_ready(rest: Normalised) -> Normalised:
    queues = rest.get("queues", {})
    plain = {
        name: state[1:] if isinstance(state, tuple) else state for name, state in queues.items()
    }
    return rest | {"queues": plain}


def raced_for_a_window(said: tuple[Normalised, Normalised]) -> bool:
    """Whether only whose turn it was differs, of consumers that share one global prefetch.

    In RabbitMQ the queues ask one process for room, each when it is scheduled, and those that
    it had refused are told in random order.
    """
    (shares, rest), (other_shares, other_rest) = map(_shares, said)
    numbers, other_numbers = sum(map(len, shares)), sum(map(len, other_shares))
    return numbers == other_numbers and _ready_in_all(rest) == _ready_in_all(other_rest)


def _ready_in_all(rest: Normalised) -> Normalised:
    """With the messages of all queues in one number."""
    queues = rest.get("queues", {})
    counts = [state[0] for state in queues.values() if isinstance(state, tuple)]
    return _without_ready(rest) | {"ready": sum(counts)}


def _numbers_only(rest: Normalised) -> Normalised:
    """Without what the messages got and returned are."""
    plain = dict(rest)
    for place, kinds in rest.items():
        if place != "queues" and "said" in kinds:
            said = [(item[0],) if item[0] == "Basic.GetOk" else item for item in kinds["said"]]
            plain[place] = kinds | {"said": said}
    return plain


def _shares(said: Normalised) -> tuple[list[list[Any]], Normalised]:
    """What each consumer got, and all else."""
    shares: list[list[Any]] = []
    rest: Normalised = {}
    for place, kinds in said.items():
        rest[place] = kinds
        if place != "queues":
            shares += (what for kind, what in kinds.items() if kind.startswith("to "))
            rest[place] = {kind: what for kind, what in kinds.items() if kind[:3] != "to "}
    return shares, {place: kinds for place, kinds in rest.items() if kinds}


def _pooled(shares: list[list[Any]]) -> list[str]:
    """All deliveries, without their tags."""
    return sorted(repr(content[1:]) for share in shares for content in share)


def without_last_deaths(properties: Any) -> Any:
    """RabbitMQ has the ``x-last-death-*`` headers since 3.13, which is what Arneb says it is."""
    if not properties or "headers" not in properties:
        return properties
    headers = properties["headers"].items()
    kept = {name: value for name, value in headers if not name.startswith("x-last-death-")}
    return properties | {"headers": kept}


def with_older_deaths_in_any_order(properties: Any) -> Any:
    """RabbitMQ turns those round each time that a message dies (``DIFFERENCES.md``). The order of
    what each of them says is the same, though."""
    deaths = (properties or {}).get("headers", {}).get("x-death")
    if not isinstance(deaths, list) or not deaths:
        return properties
    latest, *older = (list(each.items()) if isinstance(each, dict) else each for each in deaths)
    told = [latest, *sorted(older, key=repr)]
    return properties | {"headers": properties["headers"] | {"x-death": told}}


def _content(event: Event) -> tuple[Any, ...]:
    fields = dict(event.fields)
    data = event.body.decode()
    if len(data) > 40:
        data = f"{data[:10]}... ({len(data)})"
    properties = with_older_deaths_in_any_order(without_last_deaths(event.properties))
    return fields.pop("delivery_tag", None), data, fields, properties


def _plain(event: Event, prefix: str, generated: dict[str, str]) -> Event:
    """Names that a program or a broker made up, and times, are none of its behaviour."""

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
