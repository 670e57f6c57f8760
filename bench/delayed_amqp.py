"""Measures AMQP's delayed exchange beside an ordinary one: publishing, and delivery when due.

The messages are the same bytes, with a header ``x-delay`` that only the delayed exchange evaluates.
The broker of an older commit, if there is one, does the same with the ordinary exchange. The
messages become due in an order unrelated to that of publishing, and faster than they can be
delivered. Each is routed at that time, and stored once more, in its queue.
"""

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final

from bench.load import LoadGenerator, compile_generator
from bench.topology import Topology, topology
from conformance.brokers.arneb import Arneb

AMQP_MESSAGES: Final = 200_000
AMQP_ROUNDS: Final = 3
BODY_BYTES: Final = 64
WINDOW: Final = 1_000
PREFETCH: Final = 1_000
ACK_EVERY: Final = 100

ROOM_S: Final = 1.0
LEAST_RATE: Final = 20_000
"""The rate, in messages per second, that determines how long the publishing may take before the
first message is due."""
DUE_RATE: Final = 400_000
"""How many messages become due per second: more than can be delivered."""

PLAIN, DELAYED, QUEUE = "bench-plain", "bench-delayed", "bench-due"
THEN: Final = " then"
"""A suffix for the figures of the older code."""
Say = Callable[[str, float], None]


def measure_amqp(say: Say, then: Path | None) -> None:
    """Measure all rounds, on this code and, if given, on the code in ``then``."""
    with tempfile.TemporaryDirectory(prefix="arneb-delayed-") as place, ExitStack() as running:
        load = compile_generator(Path(place, "load"))

        def made(broker: Arneb) -> tuple[Arneb, Topology]:
            running.callback(broker.kill)
            return broker.start(), running.enter_context(topology(broker.address))

        sides = {"": made(Arneb(Path(place, "own"), listeners=["amqp"]))}
        if then is not None:
            sides[THEN] = made(Arneb(Path(place, "then"), listeners=["amqp"], checkout=then))
        rounds: list[dict[str, float]] = []
        for _ in range(AMQP_ROUNDS):
            found: dict[str, float] = {}
            for whose, (broker, topics) in reversed(sides.items()):
                for exchange in (PLAIN, DELAYED) if not whose else (PLAIN,):
                    _measure(load, broker, topics, exchange, whose, found)
            rounds.append(found)
        _say(say, rounds, list(sides))


def _measure(
    load: LoadGenerator,
    broker: Arneb,
    made: Topology,
    exchange: str,
    whose: str,
    found: dict[str, float],
) -> None:
    kind = "direct" if exchange == PLAIN else "x-delayed-message"
    arguments = {} if exchange == PLAIN else {"x-delayed-type": "direct"}
    made.channel.exchange_delete(exchange)
    made.channel.exchange_declare(exchange, kind, durable=True, arguments=arguments)
    made.channel.queue_bind(made.queue(QUEUE), exchange, QUEUE)
    due_s = time.time() + ROOM_S + AMQP_MESSAGES / LEAST_RATE
    common: dict[str, float | str | bool] = {
        "ready": True,
        "queue": QUEUE,
        "count": AMQP_MESSAGES,
        "body": BODY_BYTES,
    }
    due: dict[str, float | str | bool]
    due = {"due_at": int(due_s * 1000), "due_within": AMQP_MESSAGES * 1000 // DUE_RATE}
    before_s = broker.cpu_s()
    published = load.run(
        broker.address, "publish", exchange=exchange, window=WINDOW, **common, **due
    )
    found[f"publish to {exchange}{whose}"] = published["rate"]
    found[f"cpu of publish to {exchange}{whose}"] = broker.cpu_s() - before_s
    if time.time() > due_s:
        raise SystemExit(f"publishing took {time.time() - due_s:.1f} s longer than there was")
    checked = due if exchange == DELAYED else {}
    before_s = broker.cpu_s()
    drained = load.run(
        broker.address, "drain", prefetch=PREFETCH, ack_every=ACK_EVERY, **common, **checked
    )
    found[f"drain of {exchange}{whose}"] = drained["rate"]
    found[f"cpu of drain of {exchange}{whose}"] = broker.cpu_s() - before_s
    made.channel.queue_delete(QUEUE)


def _say(say: Say, rounds: list[dict[str, float]], sides: list[str]) -> None:
    for what in ("publish to", "drain of"):
        name = what.partition(" ")[0]

        def median_of(exchange: str, what: str = what) -> tuple[float, float]:
            """The rate, and the broker's CPU time per message in µs."""
            rate = median(each[f"{what} {exchange}"] for each in rounds)
            cpu_s = median(each[f"cpu of {what} {exchange}"] for each in rounds)
            return rate, cpu_s * 1e6 / AMQP_MESSAGES

        undelayed = {whose: median_of(PLAIN + whose) for whose in reversed(sides)}
        for whose, (rate, cpu_us) in undelayed.items():
            say(f"AMQP: {name} undelayed{whose}, a second", rate)
            say(f"AMQP: {name} undelayed{whose}, broker's µs each", cpu_us)
        delayed, delayed_us = median_of(DELAYED)
        say(f"AMQP: {name} delayed, random, a second", delayed)
        say(f"AMQP: {name} delayed, random, broker's µs each", delayed_us)
        for whose, (rate, cpu_us) in undelayed.items():
            say(f"AMQP: {name} delayed, random, rate by undelayed{whose}", delayed / rate)
            say(f"AMQP: {name} delayed, random, µs of undelayed{whose} by its", cpu_us / delayed_us)
