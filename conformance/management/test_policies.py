"""Policies with each key, while the broker runs: set over HTTP, their effect observed by a real
client, on both brokers.

The rule: a scenario is a function of a broker that returns what it observed; it is run on both and
must return the same. What 3.13 does differently from the installed 3.10.8 is not tested here.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pytest
from conformance.management.conftest import Managed

V = "%2F"
SETTLED_WITHIN_S = 10.0
CHECK_INTERVAL_S = 0.05
"""How often to look, in seconds."""


class Place:
    """A broker as a scenario uses it."""

    def __init__(self, broker: Managed, channel: Any, prefix: str) -> None:
        self.broker = broker
        self.channel = channel
        self.prefix = prefix

    def name(self, short: str) -> str:
        return f"{self.prefix}.{short}"

    def queue(self, short: str, **arguments: Any) -> str:
        named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        self.channel.queue_declare(self.name(short), durable=True, arguments=named)
        return self.name(short)

    def policy(
        self,
        short: str,
        definition: dict[str, Any],
        *,
        pattern: str = "",
        operator: bool = False,
        **more: Any,
    ) -> int:
        kind = "operator-policies" if operator else "policies"
        pattern = f"^{self.prefix}\\.{pattern}" if pattern != "*" else ""
        body = {"pattern": pattern, "definition": definition, "apply-to": "queues", **more}
        return self.broker.api.call("PUT", f"{kind}/{V}/{self.name(short)}", body).status

    def drop(self, short: str, *, operator: bool = False) -> int:
        kind = "operator-policies" if operator else "policies"
        return self.broker.api.call("DELETE", f"{kind}/{V}/{self.name(short)}").status

    def publish(self, queue: str, *bodies: str, exchange: str = "", **properties: Any) -> None:
        for body in bodies:
            self.channel.basic_publish(
                exchange, queue, body.encode(), pika.BasicProperties(**properties), mandatory=False
            )

    def depth(self, queue: str) -> int | None:
        """The number of ready messages; None if there is no such queue."""
        channel = self.channel.connection.channel()
        try:
            return channel.queue_declare(queue, passive=True).method.message_count
        except pika.exceptions.ChannelClosedByBroker:
            return None

    def until(self, seen: Callable[[], Any], wanted: Any) -> Any:
        """Call ``seen`` until it returns ``wanted`` or ``SETTLED_WITHIN_S`` has passed; the result
        is what it returned last."""
        end = time.monotonic() + SETTLED_WITHIN_S
        while (got := seen()) != wanted and time.monotonic() < end:
            time.sleep(CHECK_INTERVAL_S)
        return got

    def drained(self, queue: str) -> list[str]:
        bodies = []
        while True:
            method, _, body = self.channel.basic_get(queue, auto_ack=True)
            if method is None:
                return bodies
            bodies.append(body.decode())

    def shown(self, queue: str, **wanted: Any) -> tuple[Any, ...]:
        """What the API shows about the queue's policies, once it shows ``wanted`` as the effective
        definition."""

        def look() -> Any:
            # At first RabbitMQ's document of a queue is empty, and then a little out of date.
            document.update(self.broker.api.call("GET", f"queues/{V}/{queue}").json)
            return document.get("effective_policy_definition")

        document: dict[str, Any] = {}
        self.until(look, {name.replace("_", "-"): value for name, value in wanted.items()})
        names = ("policy", "operator_policy", "effective_policy_definition", "arguments")
        return tuple(document.get(each) for each in names)

    def shown_exchange(self, exchange: str) -> dict[str, Any]:
        document = self.broker.api.call("GET", f"exchanges/{V}/{exchange}").json
        return {name: value for name, value in document.items() if "policy" in name}


@contextmanager
def place_at(broker: Managed, prefix: str) -> Iterator[Place]:
    parameters = pika.ConnectionParameters(broker.amqp.host, broker.amqp.port)
    connection = pika.BlockingConnection(parameters)
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        yield Place(broker, channel, prefix)
    finally:
        connection.close()


Scenario = Callable[[Place], Any]
SCENARIOS: list[Scenario] = []


def scenario(play: Scenario) -> Scenario:
    SCENARIOS.append(play)
    return play


@scenario
def a_length_drops_heads_at_once(at: Place) -> Any:
    queue = at.queue("q", dead_letter_exchange="", dead_letter_routing_key=at.name("dead"))
    dead = at.queue("dead")
    at.publish(queue, *"abcde")
    status = at.policy("p", {"max-length": 2}, pattern="q")
    left = at.until(lambda: at.depth(queue), 2)
    died = at.until(lambda: at.depth(dead), 3)
    return status, left, died, at.drained(queue), at.drained(dead)


@scenario
def a_length_in_bytes_drops_heads_at_once(at: Place) -> Any:
    queue = at.queue("q")
    at.publish(queue, *(letter * 10 for letter in "abcde"))
    at.policy("p", {"max-length-bytes": 25})
    at.until(lambda: at.depth(queue), 2)
    return at.drained(queue)


@scenario
def a_length_that_is_gone_does_not_count(at: Place) -> Any:
    queue = at.queue("q")
    at.policy("p", {"max-length": 1})
    at.publish(queue, *"ab")
    before = at.depth(queue)
    at.drop("p")
    at.publish(queue, *"cd")
    return before, at.drained(queue)


@scenario
def the_lesser_of_policy_and_argument_counts(at: Place) -> Any:
    less, more = at.queue("less", max_length=1), at.queue("more", max_length=9)
    at.policy("p", {"max-length": 3})
    for queue in (less, more):
        at.publish(queue, *"abcde")
    return at.drained(less), at.drained(more)


@scenario
def a_time_to_live_is_for_what_comes_later(at: Place) -> Any:
    queue, dead = at.queue("q"), at.queue("dead")
    at.publish(queue, "old")
    dies = {"dead-letter-exchange": "", "dead-letter-routing-key": dead}
    at.policy("p", {"message-ttl": 100, **dies}, pattern="q")
    at.publish(queue, "new")
    time.sleep(0.4)
    # Expired messages are removed only from the front.
    first = at.channel.basic_get(queue, auto_ack=True)[2]
    rest = at.until(lambda: at.depth(queue), 0)
    return first, rest, at.until(lambda: at.depth(dead), 1), at.drained(dead)


@scenario
def what_was_published_under_a_time_to_live_keeps_it(at: Place) -> Any:
    queue = at.queue("q")
    at.policy("p", {"message-ttl": 300})
    at.publish(queue, "dies")
    at.drop("p")
    at.publish(queue, "stays")
    time.sleep(0.6)
    return at.until(lambda: at.depth(queue), 1), at.drained(queue)


@scenario
def a_longer_time_to_live_does_not_save_what_is_there(at: Place) -> Any:
    queue = at.queue("q", message_ttl=500)
    at.publish(queue, "a")
    at.policy("p", {"message-ttl": 60_000})
    at.publish(queue, "b")
    return at.until(lambda: at.depth(queue), 0)


@scenario
def a_queue_expires_from_then_on(at: Place) -> Any:
    queue = at.queue("q")
    time.sleep(0.3)
    began = time.monotonic()
    at.policy("p", {"expires": 600})
    there = at.depth(at.queue("other"))
    gone = at.until(lambda: at.broker.api.call("GET", f"queues/{V}/{queue}").status, 404)
    return there, gone, time.monotonic() - began > 0.5


@scenario
def a_dead_letter_exchange_counts_for_old_messages(at: Place) -> Any:
    queue, dead = at.queue("q"), at.queue("dead")
    at.publish(queue, *"abc")
    at.policy("p", {"dead-letter-exchange": "", "dead-letter-routing-key": dead}, pattern="q")
    at.channel.basic_nack(at.channel.basic_get(queue)[0].delivery_tag, requeue=False)
    at.until(lambda: at.depth(dead), 1)
    _, properties, _ = at.channel.basic_get(dead, auto_ack=True)
    at.drop("p")
    at.channel.basic_nack(at.channel.basic_get(queue)[0].delivery_tag, requeue=False)
    at.until(lambda: at.depth(queue), 1)
    death = properties.headers["x-death"][0]
    return death["reason"], death["queue"] == queue, at.depth(queue), at.depth(dead)


@scenario
def a_dead_letter_exchange_of_the_arguments_wins(at: Place) -> Any:
    mine, theirs = at.queue("mine"), at.queue("theirs")
    queue = at.queue("q", dead_letter_exchange="", dead_letter_routing_key=mine)
    at.policy("p", {"dead-letter-exchange": "", "dead-letter-routing-key": theirs}, pattern="q")
    at.publish(queue, "a")
    at.channel.basic_nack(at.channel.basic_get(queue)[0].delivery_tag, requeue=False)
    return at.until(lambda: at.depth(mine), 1), at.depth(theirs)


@scenario
def a_routing_key_of_the_policy_goes_with_an_exchange_of_the_arguments(at: Place) -> Any:
    dead = at.queue("dead")
    queue = at.queue("q", dead_letter_exchange="")
    at.policy("p", {"dead-letter-routing-key": dead}, pattern="q")
    at.publish(queue, "a")
    at.channel.basic_nack(at.channel.basic_get(queue)[0].delivery_tag, requeue=False)
    return at.until(lambda: at.depth(dead), 1)


@scenario
def a_publish_is_refused_by_policy(at: Place) -> Any:
    queue, answers = at.queue("q"), []
    at.policy("p", {"max-length": 1, "overflow": "reject-publish"})
    for body in "ab":
        try:
            at.publish(queue, body)
            answers.append("ack")
        except pika.exceptions.NackError:
            answers.append("nack")
    return answers, at.drained(queue)


@scenario
def the_overflow_of_the_arguments_wins_in_a_classic_queue(at: Place) -> Any:
    queue = at.queue("q", overflow="drop-head")
    at.policy("p", {"max-length": 1, "overflow": "reject-publish"})
    at.publish(queue, *"ab")
    return at.drained(queue)


@scenario
def the_overflow_of_the_policy_wins_in_a_quorum_queue(at: Place) -> Any:
    queue = at.queue("q", overflow="drop-head", queue_type="quorum")
    at.policy("p", {"max-length": 1, "overflow": "reject-publish"})
    refused = 0
    for body in "abcdef":  # RabbitMQ's quorum queues accept a few too many
        try:
            at.publish(queue, body)
        except pika.exceptions.NackError:
            refused += 1
    return refused > 0, at.drained(queue)[0]


@scenario
def a_delivery_limit_is_for_quorum_queues(at: Place) -> Any:
    queue = at.queue("q", queue_type="quorum")
    at.publish(queue, "a")
    at.policy("p", {"delivery-limit": 1})
    tries = 0
    while tries < 5:
        method, _, _ = at.channel.basic_get(queue)
        if method is None:
            break
        tries += 1
        at.channel.basic_nack(method.delivery_tag)
        time.sleep(CHECK_INTERVAL_S * 4)
    return tries, at.depth(queue)


@scenario
def one_unknown_key_and_the_whole_policy_is_for_others(at: Place) -> Any:
    quorum, classic = at.queue("quorum", queue_type="quorum"), at.queue("classic")
    at.policy("p", {"max-length": 1, "queue-mode": "lazy"}, priority=2)
    at.policy("second", {"max-length": 3}, priority=1)
    for queue in (quorum, classic):
        at.publish(queue, *"abcde")
    shown = at.shown(quorum, max_length=3), at.shown(classic, max_length=1, queue_mode="lazy")
    return shown, at.drained(quorum), at.drained(classic)


@scenario
def policies_do_not_add_up(at: Place) -> Any:
    queue = at.queue("q")
    at.policy("low", {"max-length": 1, "max-length-bytes": 100}, priority=1)
    at.policy("high", {"message-ttl": 60_000}, priority=5)
    seen = [at.shown(queue, message_ttl=60_000)]
    at.publish(queue, *"abc")
    depth = at.depth(queue)
    at.drop("high")
    seen.append(at.shown(queue, max_length=1, max_length_bytes=100))
    return seen, depth, at.until(lambda: at.depth(queue), 1)


@scenario
def an_operators_policy_bounds(at: Place) -> Any:
    queue = at.queue("q", max_length=50)
    at.policy("p", {"max-length": 10, "message-ttl": 100_000, "dead-letter-exchange": "x"})
    at.policy("op", {"max-length": 2, "message-ttl": 200_000, "expires": 60_000}, operator=True)
    at.publish(queue, *"abc")
    least = {"max_length": 2, "message_ttl": 100_000, "expires": 60_000}
    shown = at.shown(queue, dead_letter_exchange="x", **least)
    at.drop("p")
    alone = at.shown(queue, **least | {"message_ttl": 200_000})
    at.drop("op", operator=True)
    return shown, alone, at.shown(queue), at.drained(queue)


@scenario
def an_alternate_exchange_counts_for_the_next_publish(at: Place) -> Any:
    exchange, other, caught = at.name("x"), at.name("y"), at.queue("caught")
    at.channel.exchange_declare(exchange, "direct")
    at.channel.exchange_declare(other, "fanout")
    at.channel.queue_bind(caught, other)
    at.publish("key", "lost", exchange=exchange)
    definition = {"alternate-exchange": other}
    at.policy("p", definition, pattern="x", **{"apply-to": "exchanges"})
    at.publish("key", "caught", exchange=exchange)
    shown = at.shown_exchange(exchange)
    at.drop("p")
    at.publish("key", "lost again", exchange=exchange)
    seen = {name: str(value).replace(at.prefix, "") for name, value in shown.items()}
    return seen, at.shown_exchange(exchange), at.drained(caught)


@scenario
def an_alternate_exchange_of_the_arguments_wins(at: Place) -> Any:
    mine, theirs = at.queue("mine"), at.queue("theirs")
    for name, queue in (("a", mine), ("b", theirs)):
        at.channel.exchange_declare(at.name(name), "fanout")
        at.channel.queue_bind(queue, at.name(name))
    exchange = at.name("x")
    arguments = {"alternate-exchange": at.name("a")}
    at.channel.exchange_declare(exchange, "direct", arguments=arguments)
    definition = {"alternate-exchange": at.name("b")}
    at.policy("p", definition, pattern="x", **{"apply-to": "exchanges"})
    at.publish("key", "m", exchange=exchange)
    return at.depth(mine), at.depth(theirs)


@scenario
def exclusive_and_server_named_queues_are_concerned(at: Place) -> Any:
    at.policy("p", {"max-length": 1}, pattern="*", priority=-5)
    queue = at.channel.queue_declare("", exclusive=True).method.queue
    at.publish(queue, *"ab")
    seen = at.drained(queue), at.shown(queue, max_length=1)[2]
    at.drop("p")
    return seen


@scenario
def what_it_applies_to(at: Place) -> Any:
    queue, exchange = at.queue("q"), at.name("x")
    at.channel.exchange_declare(exchange, "direct")
    seen = []
    for target in ("queues", "exchanges", "all"):
        at.policy("p", {"max-length": 5}, **{"apply-to": target})
        wanted = {} if target == "exchanges" else {"max_length": 5}
        seen.append((at.shown(queue, **wanted)[2], bool(at.shown_exchange(exchange).get("policy"))))
    return seen


@scenario
def keys_of_clusters_and_federation_are_taken(at: Place) -> Any:
    queue = at.queue("q")
    definition = {
        "queue-mode": "lazy",
        "ha-mode": "all",
        "ha-sync-mode": "automatic",
        "queue-master-locator": "min-masters",
    }
    wanted = {name.replace("-", "_"): value for name, value in definition.items()}
    return at.policy("p", definition), at.shown(queue, **wanted)


@scenario
def what_a_policy_says_of_mirrors_must_make_sense(at: Place) -> Any:
    exactly = {"ha-mode": "exactly", "ha-params": 2}
    definitions: tuple[dict[str, Any], ...] = (
        {"ha-mode": "nonsense"},
        {"ha-mode": "all", "ha-params": 2},
        {"ha-mode": "exactly"},
        {"ha-mode": "exactly", "ha-params": 0},
        {"ha-mode": "nodes", "ha-params": []},
        {"ha-mode": "nodes", "ha-params": ["a", 1]},
        {"ha-mode": "nodes", "ha-params": ["a"]},
        {"ha-sync-mode": "automatic"},
        {"ha-sync-batch-size": 1},
        {"ha-promote-on-shutdown": "always"},
        {**exactly, "ha-sync-mode": "never"},
        {**exactly, "ha-sync-batch-size": 0},
        {**exactly, "ha-promote-on-shutdown": "never"},
        {**exactly, "ha-promote-on-failure": "never"},
        {**exactly, "ha-sync-mode": "manual", "ha-promote-on-failure": "when-synced"},
        {"queue-master-locator": "nonsense"},
        {"federation-upstream-pattern": "("},
    )
    return [at.policy("p", definition, pattern="none") for definition in definitions]


@scenario
def a_redeclaration_looks_at_arguments_only(at: Place) -> Any:
    queue = at.queue("q", max_length=5)
    at.policy("p", {"max-length": 3, "message-ttl": 1000})
    return at.queue("q", max_length=5) == queue, at.shown(queue, max_length=3, message_ttl=1000)


@scenario
def a_stream_keeps_what_its_policy_says(at: Place) -> Any:
    stream = at.queue("s", queue_type="stream")
    status = at.policy("p", {"max-age": "1h", "max-length-bytes": 1_000_000})
    return status, at.shown(stream, max_age="1h", max_length_bytes=1_000_000)


@scenario
def a_publish_is_taken_again_when_the_policy_is_gone(at: Place) -> Any:
    queue = at.queue("q")
    at.policy("p", {"max-length": 1, "overflow": "reject-publish"})
    at.publish(queue, "a")
    at.policy("p", {"max-length": 2, "overflow": "drop-head"})
    at.publish(queue, *"bcd")
    return at.drained(queue)


@pytest.mark.parametrize("play", SCENARIOS, ids=lambda play: play.__name__)
def test_both_brokers_do_the_same(pair: tuple[Managed, Managed], play: Scenario) -> None:
    seen = []
    for broker in pair:
        with place_at(broker, f"{play.__name__}-{broker.name}") as place:
            seen.append(_without_names(play(place), place.prefix))
            for short in ("p", "low", "high", "second"):
                place.drop(short)
            place.drop("op", operator=True)
    ours, theirs = seen
    assert ours == theirs


def _without_names(seen: Any, prefix: str) -> str:
    return json.dumps(seen, sort_keys=True, default=repr).replace(prefix, "")
