"""The demo's script: runs each step, prints what it saw, and checks it."""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from arneb.demo.clients import (
    Step,
    aggregate_by_spark,
    consume_by_aio_pika,
    consume_by_pulsar,
    keep_for_audit,
    publish_by_pika,
)
from arneb.demo.orders import Order, Turnover
from arneb.demo.process import BrokerProcess

ORDERS: Final = 10_000
HALF: Final = ORDERS // 2
ACKS_DURABLE_AFTER_S: Final = 0.2
"""The wait until AMQP acks are durable, so that counts are exact. An ack has no receipt, and is
durable within 100 ms."""

Result = TypeVar("Result")

console = Console(highlight=False)


class CountOff(Exception):
    """A step counted something else than expected."""


def main() -> None:
    """Run every step; exit status 1 if one count is off."""
    begin = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory(prefix="arneb-demo-") as directory:
            run(Path(directory) / "data")
    except CountOff as error:
        console.print(f"[bold red]Off:[/] {error}")
        sys.exit(1)
    console.print(f"[bold green]Nothing was lost.[/] {time.perf_counter() - begin:.0f} s in all.")


def run(data_dir: Path) -> None:
    """Run every step on one data directory."""
    orders = [Order(number) for number in range(ORDERS)]
    with BrokerProcess(data_dir) as broker:
        console.print(f"Broker started in {broker.started_in_s:.2f} s, process {broker.pid}.")
        confirmed = timed(
            "pika publishes, each message confirmed",
            ORDERS,
            lambda step: publish_by_pika(broker.amqp_port, orders, step),
        )
        expect("confirmed messages", ORDERS, confirmed)
        keep_for_audit(broker.pulsar_url)
        first = timed(
            "aio-pika consumes and acknowledges half",
            HALF,
            lambda step: consume_by_aio_pika(broker.amqp_port, HALF, step),
        )
        time.sleep(ACKS_DURABLE_AFTER_S)
        broker.kill()
        console.print(f"Broker killed by SIGKILL after {len(first):,} acknowledgements.")
    with BrokerProcess(data_dir) as broker:
        console.print(f"Broker started again in {broker.started_in_s:.2f} s, same directory.")
        rest = timed(
            "the Pulsar client consumes the rest",
            HALF,
            lambda step: consume_by_pulsar(broker.pulsar_url, HALF, step),
        )
        judge(orders, first, rest)
        with console.status("Spark reads the log while the broker runs …"):
            begin = time.perf_counter()
            found = aggregate_by_spark(data_dir)
            taken = time.perf_counter() - begin
        check_turnover(Turnover.of(orders), found, taken)
        memory_mb = broker.memory_mb
        taken = broker.stop()
        console.print(f"Broker stopped in {taken:.2f} s; it had {memory_mb:.0f} MB of memory.")


def judge(orders: list[Order], first: list[Order], rest: list[Order]) -> None:
    """Check that every order was consumed once, in the order of publishing."""
    expect("orders consumed by AMQP", HALF, len(first))
    expect("orders consumed by Pulsar", HALF, len(rest))
    expect("orders consumed twice", 0, len(set(first) & set(rest)))
    expect("orders never consumed", 0, len(set(orders) - set(first) - set(rest)))
    expect("orders out of place", 0, sum(a != b for a, b in zip(orders, first + rest, strict=True)))


def check_turnover(turnover: Turnover, found: dict[str, tuple[int, int]], taken_s: float) -> None:
    """Check that Spark found what was sent, country by country."""
    count = sum(n for n, _ in found.values())
    console.print(f"Spark aggregated {count:,} orders in {taken_s:.1f} s, its own start included:")
    for country in sorted(found):
        n, cents = found[country]
        console.print(f"  {country}  {n:>6,} orders  {cents / 100:>12,.2f}")
    expect("orders in the log", ORDERS, count)
    for country, n in turnover.orders.items():
        expect(f"orders from {country}", n, found.get(country, (0, 0))[0])
        expect(f"cents from {country}", turnover.cents[country], found.get(country, (0, 0))[1])


def expect(what: str, expected: int, got: int) -> None:
    """Raise :class:`CountOff` unless both are equal."""
    if expected != got:
        raise CountOff(f"{what}: expected {expected:,}, got {got:,}")


def timed(what: str, total: int, work: Callable[[Step], Result]) -> Result:
    """Do ``work`` under a progress bar, then say how long it took."""
    with bar(what, total) as step:
        begin = time.perf_counter()
        result = work(step)
        taken = time.perf_counter() - begin
    console.print(f"[green]✓[/] {what}: {total:,} in {taken:.1f} s, {total / taken:,.0f}/s")
    return result


@contextmanager
def bar(what: str, total: int) -> Iterator[Step]:
    """Show a progress bar while the block runs."""
    columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn())
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task(what, total=total)
        yield lambda: progress.advance(task)


if __name__ == "__main__":
    main()
