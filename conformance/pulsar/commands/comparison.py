"""Comparing what two brokers have a command say: whether it was done, what it shows, and why not.

The rule: what is refused is refused with the same status. Documents are compared by their fields
and the kinds of their values, and by the values where those are a policy's. What only Apache Pulsar
does is refused by Arneb with a reason, which is an outcome of its own and not a difference.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from conformance.pulsar.commands.tool import Said

REFUSED: Final = 501
NOT_FOUND: Final = 404
NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")
NAMED: Final = re.compile(r"(?i)\b(localhost|127\.0\.0\.1)(:\d+)?")
LISTED: Final = re.compile(r"\[([^\[\]\n]*)\]")
TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)?")

POLICIES: Final = ("get-", "policies")
"""What these show is compared by its values."""


LEDGERS: Final = "a cursor is a row of the store, and has no ledger"
SYSTEM: Final = "there are no system topics, tenants or namespaces"
NO_MANAGED_LEDGER: Final = "what is under way is kept in one log for all topics and subscriptions"
OWN_SETTINGS: Final = "each broker has the settings that it has"

NOT_SET: Final = "setting it was refused with a reason, so it is not set"

EXPLAINED: Final[Mapping[str, str]] = {
    "topics get-replicated-subscription-status": NOT_SET,
    "topics get-offload-policies": NOT_SET,
    "topics get-replicator-dispatch-rate": NOT_SET,
    "topicPolicies get-replicator-dispatch-rate persistent": NOT_SET,
    "topicPolicies get-offload-policies": NOT_SET,
    "namespaces get-replicator-dispatch-rate": NOT_SET,
    "namespaces get-offload-policies": NOT_SET,
    "namespaces get-offload-deletion-lag": NOT_SET,
    "namespaces get-anti-affinity-group": NOT_SET,
    "namespaces get-bookie-affinity-group": NOT_SET,
    "tenants list": SYSTEM,
    "topics list -td persistent -ist": SYSTEM,
    "topics stats-internal -m": LEDGERS,
    "topics info-internal": LEDGERS,
    "topics examine-messages -i latest -m 100": "Pulsar fails where the first one is shown",
    "topics get-message-by-id -l {ledger} -e 999": "Pulsar fails where nothing is there",
    "persistent expire-messages": "Pulsar goes by counters, which what was skipped leaves wrong",
    "persistent partitioned-stats-internal": "a topic without messages has no ledger yet",
    "topicPolicies get-dispatcher-pause-on-ack-state-persistent": (
        "the tool does not wait for the answer, and prints the state of waiting"
    ),
    "brokers namespaces": SYSTEM,
    "brokers list-dynamic-config": OWN_SETTINGS,
    "brokers get-runtime-config": OWN_SETTINGS,
    "brokers version": "each says who it is",
    "broker-stats monitoring-metrics": "each has the figures that it has",
    "broker-stats topics": "Arneb shows of each topic what `topics stats` does",
    "broker-stats load-report": "there is nobody to balance with",
    "transactions coordinator-internal-stats": NO_MANAGED_LEDGER,
    "transactions pending-ack-internal-stats": NO_MANAGED_LEDGER,
    "transactions buffer-snapshot-internal-stats": "no reader has to know who was aborted",
    "transactions abort-transaction -m {most} -l 999999": "Pulsar fails with one that is not there",
    "namespaces clear-backlog -force -s sub": (
        "Pulsar fails while a topic without that subscription is in memory, as chance has it"
    ),
    "namespaces policies": "Pulsar shows what was set and has no effect here",
    "namespaces get-backlog-quotas": (
        "Pulsar shows defaults there as if they were set, once somebody has asked which quotas "
        "hold for a topic of the namespace"
    ),
}
"""By the beginnings of lines."""


class Outcome(Enum):
    """How two answers to one command stand to each other."""

    SAME = "the same"
    REASON = "refused with a reason"
    EXPLAINED = "different for a reason that is known"
    MISSING = "404 where the other has none"
    OTHER = "different"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table."""

    command: str
    outcome: Outcome
    pulsar: str
    arneb: str


def compared(command: str, pulsar: Said, arneb: Said) -> Line:
    """A line of the table."""
    one, other = shown(command, pulsar), shown(command, arneb)
    outcome = Outcome.OTHER
    if one == other:
        outcome = Outcome.SAME
    elif arneb.status == REFUSED:
        outcome = Outcome.REASON
    elif arneb.status == NOT_FOUND and not (pulsar.status == NOT_FOUND or pulsar.ok):
        outcome = Outcome.MISSING
    if outcome in (Outcome.OTHER, Outcome.MISSING) and explained(command):
        outcome = Outcome.EXPLAINED
    if outcome is not Outcome.SAME and pulsar.ok and arneb.ok:
        one, other = different(one, other)
    return Line(command, outcome, one, other)


def shown(command: str, said: Said) -> str:
    """What is compared."""
    if not said.ok:
        return f"refused: {said.status or last_line(said.err)}"
    try:
        document = json.loads(said.out)
    except ValueError:
        return f"done: {plain(said.out)}" if said.out.strip() else "done"
    # Policies are compared by their values; what is measured differs from run to run.
    is_policy = command.split()[1].startswith(POLICIES) and not is_measured(command)
    return "done: " + json.dumps(
        in_order(document) if is_policy else shape(document), sort_keys=True
    )


def explained(command: str) -> str:
    """Why two brokers differ in it, if that is known."""
    return next((why for known, why in EXPLAINED.items() if command.startswith(known)), "")


def different(one: str, other: str) -> tuple[str, str]:
    """Of two documents, what only one of them has."""
    try:
        first, second = (
            set(paths(json.loads(each.removeprefix("done: ")))) for each in (one, other)
        )
    except ValueError:
        return one, other
    return "done: " + " ".join(sorted(first - second)), "done: " + " ".join(sorted(second - first))


def paths(value: Any, path: str = "") -> Iterator[str]:
    """Every leaf, with what leads to it."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from paths(each, f"{path}.{key}")
    elif isinstance(value, list) and value:
        for each in value:
            yield from paths(each, f"{path}[]")
    else:
        yield f"{path}={json.dumps(value)}"


MEASURED: Final = frozenset(
    {
        "get-all-dynamic-config",
        "get-backlog-size",
        "get-cluster-migration",
        "get-internal-config",
        "get-message-by-id",
        "get-message-id",
        "get-runtime-config",
        "get-topic-positions",
    }
)


def is_measured(command: str) -> bool:
    """What it shows is no policy."""
    return command.split()[1] in MEASURED


def in_order(value: Any) -> Any:
    """The same, with lists in one order: most of them stand for sets."""
    if isinstance(value, dict):
        return {key: in_order(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted(map(in_order, value), key=json.dumps)
    return value


def shape(value: Any) -> Any:
    """Its fields and the kinds of their values."""
    if isinstance(value, dict):
        return {plain(key): shape(each) for key, each in sorted(value.items())}
    if isinstance(value, list):
        kinds = {json.dumps(shape(each), sort_keys=True) for each in value}
        return [json.loads(each) for each in sorted(kinds)]
    if isinstance(value, bool) or value is None:
        return type(value).__name__
    return "number" if isinstance(value, (int, float)) else "text"


def plain(text: str) -> str:
    """Without addresses, times and numbers; lists of names in one order."""
    text = LISTED.sub(lambda it: f"[{', '.join(sorted(it[1].split(', ')))}]", text)
    for pattern in (TIME, NAMED, NUMBER):
        text = pattern.sub("#", text)
    return " ".join(sorted(set(text.split("\n")))).strip()


def last_line(text: str) -> str:
    """What it comes to."""
    lines = [each for each in text.strip().splitlines() if each.strip()]
    return plain(lines[-1]) if lines else "nothing was said"
