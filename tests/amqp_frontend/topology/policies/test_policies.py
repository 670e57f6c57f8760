"""Which policy applies and what it sets, compared with a small model of RabbitMQ's rules.

The model is written from RabbitMQ's documents and sources, not from our table: key by key, in
words.
"""

import re
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.topology.policies.keys import POLICY_KEYS, merged
from arneb_amqp.topology.policies.policies import APPLY_TO, NO_POLICY, Policies
from arneb_amqp.topology.queue_types import DeadLetterStrategy, OverflowPolicy, QueueType
from arneb_amqp.topology.queues.effective import effective_options
from arneb_amqp.topology.queues.options import QueueOptions
from arneb_amqp.wire.tables import Field, long, longstr
from arneb_core.access.records import OperatorPolicy, Policy

LEAST: Final = frozenset(
    {"message-ttl", "expires", "max-length", "max-length-bytes", "max-in-memory-length",
     "max-in-memory-bytes", "delivery-limit"}
)  # fmt: skip
"""If a policy and an operator policy both set a key, the lesser value counts, or else the
operator's."""

REFUSED_BY: Final = {
    "classic": {"max-age", "stream-max-segment-size-bytes", "initial-cluster-size",
                "delivery-limit", "dead-letter-strategy", "max-in-memory-length",
                "max-in-memory-bytes", "target-group-size"},
    "quorum": {"queue-mode", "ha-mode", "ha-params", "ha-sync-mode", "ha-promote-on-shutdown",
               "ha-promote-on-failure", "queue-master-locator", "max-age",
               "stream-max-segment-size-bytes", "initial-cluster-size"},
    "stream": {"expires", "message-ttl", "dead-letter-exchange", "dead-letter-routing-key",
               "max-length", "max-in-memory-length", "max-in-memory-bytes", "overflow",
               "queue-mode", "delivery-limit", "ha-mode", "ha-params", "ha-sync-mode",
               "ha-promote-on-shutdown", "ha-promote-on-failure", "queue-master-locator",
               "dead-letter-strategy", "target-group-size"},
}  # fmt: skip
"""``unsupported_policies`` of the queue types, as far as it matters here."""

BESIDE_ARGUMENTS: Final = {
    ("message-ttl", "classic"): "least", ("message-ttl", "quorum"): "least",
    ("expires", "classic"): "least", ("expires", "quorum"): "policy",
    ("max-length", "classic"): "least", ("max-length", "quorum"): "least",
    ("max-length-bytes", "classic"): "least", ("max-length-bytes", "quorum"): "least",
    ("max-length-bytes", "stream"): "policy", ("max-age", "stream"): "policy",
    ("overflow", "classic"): "argument", ("overflow", "quorum"): "policy",
    ("dead-letter-exchange", "classic"): "argument",
    ("dead-letter-exchange", "quorum"): "argument",
    ("dead-letter-routing-key", "classic"): "argument",
    ("dead-letter-routing-key", "quorum"): "argument",
    ("dead-letter-strategy", "quorum"): "argument",
    ("delivery-limit", "quorum"): "least",
    ("consumer-timeout", "classic"): "least", ("consumer-timeout", "quorum"): "least",
    ("stream-max-segment-size-bytes", "stream"): "policy",
}  # fmt: skip

OPTIONS: Final = {
    "message-ttl": "message_ttl_ms", "expires": "expires_ms", "max-length": "messages_max",
    "max-length-bytes": "bytes_max", "overflow": "overflow", "max-age": "max_age_ms",
    "dead-letter-exchange": "dead_letter_exchange",
    "dead-letter-routing-key": "dead_letter_routing_key",
    "dead-letter-strategy": "dead_letter_strategy", "delivery-limit": "delivery_limit",
    "consumer-timeout": "consumer_timeout_ms",
    "stream-max-segment-size-bytes": "segment_bytes_max",
}  # fmt: skip

NAMES: Final = ("orders", "orders.eu", "tmp", "", "ünï")
PATTERNS: Final = ("^orders", "orders$", ".*", "", "^tmp|eu$", "^$", "ï")
TIMES: Final = st.integers(1, 5)
VALUES: Final = {
    "overflow": st.sampled_from(["drop-head", "reject-publish", "reject-publish-dlx"]),
    "dead-letter-exchange": st.sampled_from(["x", "y"]),
    "dead-letter-routing-key": st.sampled_from(["k", "l"]),
    "dead-letter-strategy": st.sampled_from(["at-least-once", "at-most-once"]),
    "max-age": st.sampled_from(["1h", "2D"]),
    "queue-mode": st.just("lazy"),
    "ha-mode": st.just("all"),
    "alternate-exchange": st.just("x"),
    **dict.fromkeys(
        (*LEAST, "consumer-timeout", "stream-max-segment-size-bytes", "target-group-size"), TIMES
    ),
}
OF_OPERATORS: Final = (*LEAST, "overflow", "target-group-size", "ha-mode")
AGES_MS: Final = {"1h": 3_600_000, "2D": 172_800_000}


def definitions(names: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    chosen = st.sets(st.sampled_from(sorted(names)), min_size=1, max_size=4)
    return chosen.flatmap(
        lambda names: st.fixed_dictionaries({name: VALUES[name] for name in sorted(names)})
    )


def policies(kind: type[Policy]) -> st.SearchStrategy[list[Policy]]:
    names = OF_OPERATORS if kind is OperatorPolicy else tuple(VALUES)
    one = st.builds(
        kind,
        vhost=st.just("/"),
        name=st.sampled_from("abcde"),
        pattern=st.sampled_from(PATTERNS),
        definition=definitions(names),
        apply_to=st.sampled_from(APPLY_TO),
        priority=st.integers(-3, 3),
    )
    # Of policies with equal priority any may apply in RabbitMQ.
    return st.lists(one, max_size=5, unique_by=(lambda each: each.name, lambda each: each.priority))


def model(rows: list[Policy], name: str, targets: set[str], kind: str) -> Policy | None:
    best = None
    for row in rows:
        if row.apply_to not in targets or re.search(row.pattern, name) is None:
            continue
        if kind and set(row.definition) & REFUSED_BY[kind]:
            continue
        if best is None or row.priority > best.priority:
            best = row
    return best


def model_of_both(policy: Policy | None, by_operator: Policy | None) -> dict[str, Any]:
    both: dict[str, Any] = {}
    for row in (policy, by_operator):
        for key, value in row.definition.items() if row else ():
            both[key] = min(both[key], value) if key in both and key in LEAST else value
    return both


def argument(value: Any) -> Field:
    return longstr(value) if isinstance(value, str) else long(value)


@given(
    policies(Policy), policies(OperatorPolicy), st.sampled_from(NAMES),
    st.sampled_from(QueueType), definitions(tuple(OPTIONS)),
)  # fmt: skip
def test_what_applies_to_a_queue_is_what_rabbitmq_says(
    rows: list[Policy],
    by_operators: list[Policy],
    name: str,
    kind: QueueType,
    asked: dict[str, Any],
) -> None:
    targets = {"all", "queues", {"stream": "streams"}.get(kind.value, f"{kind.value}_queues")}
    policy = model(rows, name, targets, kind.value)
    by_operator = model(by_operators, name, targets, kind.value)
    wanted = model_of_both(policy, by_operator)

    applied = Policies(rows, by_operators).for_queue(name, kind)
    assert applied.policy == (policy and policy.name)
    assert applied.operator_policy == (by_operator and by_operator.name)
    assert applied.definition == wanted

    declared = {key: value for key, value in asked.items() if (key, kind.value) in BESIDE_ARGUMENTS}
    arguments = {f"x-{key}": argument(value) for key, value in declared.items()}
    options = effective_options(
        {"x-queue-type": longstr(kind.value), **arguments}, applied.definition
    )
    for key, option in OPTIONS.items():
        wins = BESIDE_ARGUMENTS.get((key, kind.value))
        values = [each[key] for each in (declared, wanted) if key in each and wins]
        expected: Any = getattr(QueueOptions(), option)
        if len(values) == 2 and wins == "least":
            expected = min(values)
        elif len(values) == 2:
            expected = values[1 if wins == "policy" else 0]
        elif values:
            expected = values[0]
        if key == "max-age" and values:
            expected = AGES_MS[expected]
        if key == "overflow":
            expected = OverflowPolicy(expected)
        if key == "dead-letter-strategy":
            expected = DeadLetterStrategy(expected)
        assert getattr(options, option) == expected, key


@given(policies(Policy), st.sampled_from(NAMES))
def test_what_applies_to_an_exchange_is_what_rabbitmq_says(rows: list[Policy], name: str) -> None:
    policy = model(rows, name, {"all", "exchanges"}, "")
    applied = Policies(rows).for_exchange(name)
    assert (applied.policy, applied.definition) == (
        policy and policy.name, policy.definition if policy else {}
    )  # fmt: skip


def test_settings_shared_by_many_queues_are_one_value() -> None:
    found = Policies([Policy("/", "p", "", {"max-length": 1})])
    assert found.for_queue("a", QueueType.CLASSIC) is found.for_queue("b", QueueType.QUORUM)
    assert Policies([]).for_queue("a", QueueType.CLASSIC) is NO_POLICY


@pytest.mark.parametrize("row", POLICY_KEYS.values(), ids=lambda row: row.name)
def test_every_option_of_a_key_exists_and_is_for_types_that_know_the_key(row: Any) -> None:
    assert bool(row.option) == bool(row.wins)
    assert not row.option or hasattr(QueueOptions(), row.option)
    assert not row.unknown_to & set(row.wins)


def test_an_operator_policy_wins_where_there_is_no_lesser_value() -> None:
    for theirs, operators in (("drop-head", "reject-publish"), ("reject-publish", "drop-head")):
        both = merged({"overflow": theirs}, {"overflow": operators})
        assert both == {"overflow": operators}


@pytest.mark.parametrize("key", sorted(LEAST))
def test_the_lesser_of_two_limits_counts(key: str) -> None:
    assert merged({key: 1}, {key: 2}) == merged({key: 2}, {key: 1}) == {key: 1}


@pytest.mark.parametrize(("key", "kind"), sorted(BESIDE_ARGUMENTS))
def test_what_counts_beside_an_argument(key: str, kind: str) -> None:
    lower, higher = ("1h", "2D") if key == "max-age" else (1, 2)
    if key.startswith("dead-letter"):
        lower, higher = "x", "y"
    if key == "dead-letter-strategy":
        lower, higher = "at-most-once", "at-least-once"
    if key == "overflow":
        lower, higher = "drop-head", "reject-publish"
    option = OPTIONS[key]
    for declared, by_policy in ((lower, higher), (higher, lower)):
        arguments = {"x-queue-type": longstr(kind), f"x-{key}": argument(declared)}
        wins = BESIDE_ARGUMENTS[key, kind]
        counts = {"least": lower, "argument": declared, "policy": by_policy}[wins]
        wanted = effective_options({**arguments, f"x-{key}": argument(counts)}, {})
        got = effective_options(arguments, {key: by_policy})
        assert getattr(got, option) == getattr(wanted, option)
