"""Compares what two brokers answer to a command: whether it was done, what it shows, or why it was
refused.

The rule: refusals must have the same status. Documents are compared by their fields and the types
of the values; documents of policies are compared by the values too. Arneb refuses what only Apache
Pulsar does and gives a reason; that is an outcome of its own and not a difference.
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
"""Commands whose names begin like this are compared by the values that they show."""


LEDGERS: Final = "a cursor is a row of the store, and has no ledger"
SYSTEM: Final = "there are no system topics, tenants or namespaces"
NO_MANAGED_LEDGER: Final = "what is under way is kept in one log for all topics and subscriptions"
OWN_SETTINGS: Final = "each broker has settings of its own"

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
    "topics examine-messages -i latest -m 100": "Pulsar fails where Arneb shows the first message",
    "topics get-message-by-id -l {ledger} -e 999": "Pulsar fails if there is no such message",
    "persistent expire-messages": "Pulsar uses counters, which are wrong after skipping messages",
    "persistent partitioned-stats-internal": "a topic without messages has no ledger yet",
    "topicPolicies get-dispatcher-pause-on-ack-state-persistent": (
        "the tool does not wait for the answer, and prints the state of waiting"
    ),
    "brokers namespaces": SYSTEM,
    "brokers list-dynamic-config": OWN_SETTINGS,
    "brokers get-runtime-config": OWN_SETTINGS,
    "brokers version": "each gives its own version",
    "broker-stats monitoring-metrics": "each has metrics of its own",
    "broker-stats topics": "Arneb shows for each topic what `topics stats` shows",
    "broker-stats load-report": "there is no other broker to balance load with",
    "transactions coordinator-internal-stats": NO_MANAGED_LEDGER,
    "transactions pending-ack-internal-stats": NO_MANAGED_LEDGER,
    "transactions buffer-snapshot-internal-stats": "readers need not know what was aborted",
    "transactions abort-transaction -m {most} -l 999999": "Pulsar fails if there is no such one",
    "namespaces clear-backlog -force -s sub": (
        "Pulsar fails while a topic without that subscription is in memory, which varies"
    ),
    "namespaces policies": "Pulsar shows settings that have no effect in Arneb",
    "namespaces get-backlog-quotas": (
        "Pulsar shows defaults there as if they were set, once somebody has asked which quotas "
        "hold for a topic of the namespace"
    ),
}
"""Reasons for known differences, by the beginning of the command line."""


class Outcome(Enum):
    """How two answers to one command compare."""

    SAME = "the same"
    REASON = "refused with a reason"
    EXPLAINED = "different for a known reason"
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
    """Compare two answers; the result is a line of the table."""
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


def shown(command: str, outcome: Said) -> str:
    """The text that is compared."""
    if not outcome.ok:
        return f"refused: {outcome.status or last_line(outcome.err)}"
    try:
        document = json.loads(outcome.out)
    except ValueError:
        return f"done: {plain(outcome.out)}" if outcome.out.strip() else "done"
    # Policies are compared by their values; measured figures differ from run to run.
    is_policy = command.split()[1].startswith(POLICIES) and not is_measured(command)
    return "done: " + json.dumps(
        in_order(document) if is_policy else shape(document), sort_keys=True
    )


def explained(command: str) -> str:
    """Why the brokers differ in this command, if that is known; otherwise empty."""
    return next((why for known, why in EXPLAINED.items() if command.startswith(known)), "")


def different(one: str, other: str) -> tuple[str, str]:
    """The parts that only one of two documents has."""
    try:
        first, second = (
            set(paths(json.loads(each.removeprefix("done: ")))) for each in (one, other)
        )
    except ValueError:
        return one, other
    return "done: " + " ".join(sorted(first - second)), "done: " + " ".join(sorted(second - first))


def paths(value: Any, path: str = "") -> Iterator[str]:
    """Every leaf of a document, preceded by its path."""
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
    """Whether it shows something other than a policy."""
    return command.split()[1] in MEASURED


def in_order(value: Any) -> Any:
    """The same value with all lists sorted, because most of them represent sets."""
    if isinstance(value, dict):
        return {key: in_order(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted(map(in_order, value), key=json.dumps)
    return value


def shape(value: Any) -> Any:
    """The value's fields and the types of their values."""
    if isinstance(value, dict):
        return {plain(key): shape(each) for key, each in sorted(value.items())}
    if isinstance(value, list):
        kinds = {json.dumps(shape(each), sort_keys=True) for each in value}
        return [json.loads(each) for each in sorted(kinds)]
    if isinstance(value, bool) or value is None:
        return type(value).__name__
    return "number" if isinstance(value, (int, float)) else "text"


def plain(text: str) -> str:
    """The text without addresses, times and numbers, and with lists of names sorted."""
    text = LISTED.sub(lambda it: f"[{', '.join(sorted(it[1].split(', ')))}]", text)
    for pattern in (TIME, NAMED, NUMBER):
        text = pattern.sub("#", text)
    return " ".join(sorted(set(text.split("\n")))).strip()


def last_line(text: str) -> str:
    """The last line that is not blank."""
    lines = [each for each in text.strip().splitlines() if each.strip()]
    return plain(lines[-1]) if lines else "no output"
