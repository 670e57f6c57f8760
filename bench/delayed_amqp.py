"""Measures AMQP's delayed exchange beside one that does not delay: publishing, and what is due.

The messages are the same bytes, with a header ``x-delay`` at which only the delayed exchange looks.
They come due in an order that has nothing to do with that of publishing, faster than they can be
delivered: each is routed then, and stored once more, in its queue.
"""

import os
import tempfile
import time
from collections.abc import Callable
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
"""As if they were published so fast, before the first is due."""
DUE_RATE: Final = 400_000
"""So many come due in a second: faster than they can be delivered."""

PLAIN, DELAYED, QUEUE = "bench-plain", "bench-delayed", "bench-due"
Say = Callable[[str, float], None]


def measure_amqp(say: Say) -> None:
    """All rounds, on one broker."""
    with tempfile.TemporaryDirectory(prefix="arneb-delayed-") as place:
        load = compile_generator(Path(place, "load"))
        broker = Arneb(Path(place, "broker"), listeners=["amqp"])
        try:
            broker.start()
            with topology(broker.address) as made:
                _say(say, [_round(load, broker, made) for _ in range(AMQP_ROUNDS)])
        finally:
            broker.kill()


def _round(load: LoadGenerator, broker: Arneb, made: Topology) -> dict[str, float]:
    found: dict[str, float] = {}
    for exchange in (PLAIN, DELAYED):
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
        before_s = broker_cpu_s(broker)
        published = load.run(
            broker.address, "publish", exchange=exchange, window=WINDOW, **common, **due
        )
        found[f"publish to {exchange}"] = published["rate"]
        found[f"cpu of publish to {exchange}"] = broker_cpu_s(broker) - before_s
        if time.time() > due_s:
            raise SystemExit(f"publishing took {time.time() - due_s:.1f} s longer than there was")
        checked = due if exchange == DELAYED else {}
        before_s = broker_cpu_s(broker)
        drained = load.run(
            broker.address, "drain", prefetch=PREFETCH, ack_every=ACK_EVERY, **common, **checked
        )
        found[f"drain of {exchange}"] = drained["rate"]
        found[f"cpu of drain of {exchange}"] = broker_cpu_s(broker) - before_s
        made.channel.queue_delete(QUEUE)
    return found


def _say(say: Say, rounds: list[dict[str, float]]) -> None:
    for what in ("publish to", "drain of"):
        plain, delayed = (
            median(each[f"{what} {exchange}"] for each in rounds) for exchange in (PLAIN, DELAYED)
        )
        plain_s, delayed_s = (
            median(each[f"cpu of {what} {exchange}"] for each in rounds)
            for exchange in (PLAIN, DELAYED)
        )
        name = what.partition(" ")[0]
        say(f"AMQP: {name} undelayed, a second", plain)
        say(f"AMQP: {name} undelayed, broker's µs each", plain_s * 1e6 / AMQP_MESSAGES)
        say(f"AMQP: {name} delayed, random, a second", delayed)
        say(f"AMQP: {name} delayed, random, broker's µs each", delayed_s * 1e6 / AMQP_MESSAGES)
        say(f"AMQP: {name} delayed, random, rate by undelayed", delayed / plain)
        say(f"AMQP: {name} delayed, random, undelayed's µs by its", plain_s / delayed_s)


def broker_cpu_s(broker: Arneb) -> float:
    """What the broker's process has computed."""
    fields = Path(f"/proc/{broker.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
