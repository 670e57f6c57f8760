"""A shop's queues in a running broker: orders, a few of them rejected, for trying out the log.

``python -m arneb.demo.shop`` fills them; ``--help`` lists the options.
"""

import argparse
from typing import Final

import pika
from rich.console import Console

from arneb.demo.orders import QUEUE, Order
from arneb.demo.publisher import Publisher

ORDERS: Final = 10_000
REJECTED: Final = 4
"""How many of the oldest orders are rejected; they become dead letters."""

DEAD: Final = f"{QUEUE}-dead"
DEAD_LETTERS: Final = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
EMPTY: Final = (DEAD, f"{QUEUE}-again", "totals")
"""Empty queues that the guide's examples write to."""


def fill(port: int, orders: int) -> None:
    """Publish ``orders`` orders to the queue, and reject a few of them."""
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
        channel = connection.channel()
        for queue in EMPTY:
            channel.queue_declare(queue, durable=True)
        Publisher(port, map(Order, range(orders)), lambda: None, DEAD_LETTERS).run()
        for _ in range(REJECTED):
            taken, _, _ = channel.basic_get(QUEUE)
            if taken is not None:
                channel.basic_nack(taken.delivery_tag, requeue=False)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m arneb.demo.shop", description="fills a shop")
    parser.add_argument("--port", type=int, default=5672, help="of AMQP, on this machine")
    parser.add_argument("--orders", type=int, default=ORDERS, help=f"{ORDERS} without it")
    given = parser.parse_args()
    fill(given.port, given.orders)
    Console(highlight=False).print(
        f"{given.orders:,} orders in the queue {QUEUE}, {REJECTED} of them rejected into {DEAD}."
    )


if __name__ == "__main__":
    main()
