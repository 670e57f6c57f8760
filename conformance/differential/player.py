"""Plays steps on one broker through raw connections, and reports what each of them led to.

The rule: a channel that a step needs is opened, and the answer to a step is waited for. Unsolicited
methods (deliveries, confirms, returns, closes) are collected by :meth:`Player.settle`. In each
round it makes a request that cannot be answered before everything older has been.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final
from warnings import catch_warnings

from conformance.brokers.process import Address
from conformance.differential.link import Event, Link
from conformance.differential.mistakes import MISTAKES
from conformance.differential.program import Program, Step
from conformance.differential.vocabulary import CHANNELS, EXCHANGES, QUEUES
from pamqp import base, commands

PLACES: Final = ((0, 1), (0, 2), (1, 1))
"""The connection and channel number of a program's channels 0, 1 and 2."""

OWN_NAME: Final = re.compile(r"[qe]\d")
GONE: Final = "gone"
CALLS: Final[dict[str, tuple[Callable[..., base.Frame], str]]] = {
    "queue_bind": (commands.Queue.Bind, "Queue.BindOk"),
    "queue_unbind": (commands.Queue.Unbind, "Queue.UnbindOk"),
    "queue_delete": (commands.Queue.Delete, "Queue.DeleteOk"),
    "purge": (commands.Queue.Purge, "Queue.PurgeOk"),
    "exchange_declare": (commands.Exchange.Declare, "Exchange.DeclareOk"),
    "exchange_delete": (commands.Exchange.Delete, "Exchange.DeleteOk"),
    "exchange_bind": (commands.Exchange.Bind, "Exchange.BindOk"),
    "exchange_unbind": (commands.Exchange.Unbind, "Exchange.UnbindOk"),
    "cancel": (commands.Basic.Cancel, "Basic.CancelOk"),
    "qos": (commands.Basic.Qos, "Basic.QosOk"),
    "flow": (commands.Channel.Flow, "Channel.FlowOk"),
    "tx_select": (commands.Tx.Select, "Tx.SelectOk"),
    "tx_commit": (commands.Tx.Commit, "Tx.CommitOk"),
    "tx_rollback": (commands.Tx.Rollback, "Tx.RollbackOk"),
}
"""Steps that are one method and its answer, and that change nothing the player has to remember."""

CONFIRMS: Final = ("Basic.Ack", "Basic.Nack")


class Player:
    """One program on one broker. ``prefix`` keeps its names apart from those of other programs."""

    def __init__(self, address: Address, prefix: str) -> None:
        self.prefix = prefix
        self._address = address
        self._links: dict[int, Link] = {}
        self._observer = Link(address)
        self._observed: set[str] = set()
        self._queues: dict[str, Any] = {}
        self._generated = ""
        self.generated: dict[str, str] = {}
        """Names that the broker chose, and what they are called in observations."""
        self._reply_to = ""
        self._seen: dict[tuple[int, int], int] = {}
        self._published = 0
        self.unacked: dict[int, list[int]] = {}
        """Each channel's delivery tags that are not acknowledged yet."""
        self._got: dict[int, set[int]] = {}
        """Each channel's delivery tags that came from ``basic.get``."""
        self._automatic: set[tuple[int, str]] = set()
        self._confirms: dict[int, int] = {}
        """The number of publishes on each channel in confirm mode; other channels are not in it."""
        self.unconfirmed: dict[int, set[int]] = {}

    def play(self, step: Step, tag: int | None) -> None:
        """Carry out ``step`` and wait for its answer. ``tag`` is the delivery tag to acknowledge,
        if the step needs one."""
        if step.do in ("close_connection", "drop_connection"):
            self._end_connection(step)
            return
        link, number = self._channel(step.on)
        args = {name: self._named(value) for name, value in step.args.items()}
        if tag is not None:
            args["which"] = tag
        if step.do in CALLS:
            method, answer = CALLS[step.do]
            self._call(link, number, method(**args), answer)
        else:
            getattr(self, f"_{step.do}")(link, number, step, args)

    def settle(self) -> None:
        """Play one round: afterwards everything that the open channels and then the queues have
        done so far has arrived."""
        self._pass_channels()
        self._observe()
        self._pass_channels()

    def observation(self) -> dict[str, Any]:
        """What has arrived since :meth:`next_step`, by channel, and the state of the queues."""
        seen: dict[str, Any] = {}
        for connection, link in self._links.items():
            for number, events in link.events.items():
                new = events[self._seen.get((connection, number), 0) :]
                if new:
                    place = self._place(connection, number)
                    seen[place] = self._singly(connection, number, new)
        seen["queues"] = dict(self._queues)
        return seen

    def next_step(self) -> None:
        """Record the consequences of what has arrived, and begin a new observation."""
        for connection, link in self._links.items():
            for number, events in link.events.items():
                start = self._seen.get((connection, number), 0)
                self._account(connection, number, events[start:])
                self._seen[connection, number] = len(events)

    @property
    def waiting(self) -> bool:
        """Whether a confirm is still missing."""
        return any(
            expected - self._confirmed(on)
            for on, expected in self.unconfirmed.items()
            if self._is_open(on)
        )

    def holds_got(self, on: int) -> bool:
        """Whether a ``basic.get`` delivery on channel ``on`` is unacknowledged."""
        return not self._got.get(on, set()).isdisjoint(self.unacked.get(on, ()))

    def end(self, program: Program) -> None:
        """Close all connections and delete everything that the program may have left."""
        for link in self._links.values():
            link.close()
        for name in QUEUES:
            self._forget(commands.Queue.Delete(queue=self.prefix + name), "Queue.DeleteOk")
        if self._generated:
            self._forget(commands.Queue.Delete(queue=self._generated), "Queue.DeleteOk")
        for name in EXCHANGES:
            self._forget(commands.Exchange.Delete(exchange=self.prefix + name), "Exchange.DeleteOk")
        self._observer.close()

    # ---- Steps -------------------------------------------------------------------------

    def _queue_declare(self, link: Link, number: int, step: Step, args: dict[str, Any]) -> None:
        reply = self._call(link, number, commands.Queue.Declare(**args), "Queue.DeclareOk")
        if reply is None and not args.get("nowait"):
            return
        if step.args["queue"] in QUEUES:
            self._observed.add(step.args["queue"])
        elif reply is not None and step.args["queue"] == "":
            self._generated = reply.fields["queue"]

    def _publish(self, link: Link, number: int, step: Step, args: dict[str, Any]) -> None:
        properties = commands.Basic.Properties(**args.pop("properties", {}))
        size, many = args.pop("size", None), args.pop("many", 1)
        for _ in range(many):
            self._published += 1
            data = f"m{self._published}".encode()
            if size is not None:
                data = (data * (size // len(data) + 1))[:size]
            if step.on in self._confirms:
                self._confirms[step.on] += 1
                self.unconfirmed[step.on].add(self._confirms[step.on])
            link.publish(number, commands.Basic.Publish(**args), properties, data)

    def _consume(self, link: Link, number: int, step: Step, args: dict[str, Any]) -> None:
        reply = self._call(link, number, commands.Basic.Consume(**args), "Basic.ConsumeOk")
        if reply is not None or args.get("nowait"):
            tag = args["consumer_tag"] if reply is None else reply.fields["consumer_tag"]
            consumer = step.on, tag
            (self._automatic.add if args.get("no_ack") else self._automatic.discard)(consumer)

    def _get(self, link: Link, number: int, step: Step, args: dict[str, Any]) -> None:
        reply = link.call(number, commands.Basic.Get(**args), "Basic.GetOk", "Basic.GetEmpty")
        if reply is not None and reply.name == "Basic.GetOk" and not args.get("no_ack"):
            self.unacked.setdefault(step.on, []).append(reply.fields["delivery_tag"])
            self._got.setdefault(step.on, set()).add(reply.fields["delivery_tag"])

    def _ack(self, link: Link, number: int, step: Step, args: dict[str, Any]) -> None:
        self._answered(step.on, args)
        link.send(number, commands.Basic.Ack(args["which"], args.get("multiple", False)))

    def _nack(self, link: Link, number: int, step: Step, args: dict[str, Any]) -> None:
        self._answered(step.on, args)
        multiple = args.get("multiple", False)
        link.send(number, commands.Basic.Nack(args["which"], multiple, args["requeue"]))

    def _reject(self, link: Link, number: int, step: Step, args: dict[str, Any]) -> None:
        self._answered(step.on, args)
        link.send(number, commands.Basic.Reject(args["which"], args["requeue"]))

    def _recover(self, link: Link, number: int, step: Step, args: dict[str, Any]) -> None:
        self.unacked[step.on] = []
        link.call(number, commands.Basic.Recover(args["requeue"]), "Basic.RecoverOk")

    def _recover_async(self, link: Link, number: int, step: Step, args: dict[str, Any]) -> None:
        self.unacked[step.on] = []
        with catch_warnings(action="ignore"):  # pamqp warns about methods that AMQP deprecates
            method = commands.Basic.RecoverAsync(args["requeue"])
        link.send(number, method)

    def _confirm_select(self, link: Link, number: int, step: Step, args: dict[str, Any]) -> None:
        method = commands.Confirm.Select(**args)
        if self._call(link, number, method, "Confirm.SelectOk") or args.get("nowait"):
            self._confirms.setdefault(step.on, 0)
            self.unconfirmed.setdefault(step.on, set())

    def _update_secret(self, link: Link, _: int, __: Step, args: dict[str, Any]) -> None:
        link.call(0, commands.Connection.UpdateSecret(**args), "Connection.UpdateSecretOk")

    def _mistake(self, link: Link, number: int, _: Step, args: dict[str, Any]) -> None:
        link.write(MISTAKES[args["what"]](number))
        link.read_until(lambda: not link.is_open(number))

    def _close_channel(self, link: Link, number: int, step: Step, _: dict[str, Any]) -> None:
        link.call(number, commands.Channel.Close(200, "bye", 0, 0), "Channel.CloseOk")
        self._forget_channel(step.on)

    def _end_connection(self, step: Step) -> None:
        connection = PLACES[step.on][0]
        if link := self._links.get(connection):
            (link.close if step.do == "close_connection" else link.drop)()

    def _call(self, link: Link, number: int, method: base.Frame, answer: str) -> Event | None:
        """The method's answer; None for a method without one, or if the channel was closed
        instead."""
        if getattr(method, "nowait", False):
            link.send(number, method)
            return None
        return link.call(number, method, answer)

    # ---- What is open ------------------------------------------------------------------

    def _channel(self, on: int) -> tuple[Link, int]:
        connection, number = PLACES[on]
        link = self._links.get(connection)
        if link is None or not link.alive:
            link = self._links[connection] = Link(self._address)
            for other, (its_connection, its_number) in enumerate(PLACES):
                if its_connection == connection:
                    self._forget_channel(other)
                    self._seen.pop((connection, its_number), None)
            self._seen.pop((connection, 0), None)
        if not link.is_open(number):
            self._forget_channel(on)
            link.open_channel(number)
        return link, number

    def _is_open(self, on: int) -> bool:
        connection, number = PLACES[on]
        return connection in self._links and self._links[connection].is_open(number)

    def _forget_channel(self, on: int) -> None:
        self.unacked.pop(on, None)
        self._got.pop(on, None)
        self._confirms.pop(on, None)
        self.unconfirmed.pop(on, None)
        self._automatic = {key for key in self._automatic if key[0] != on}

    def _place(self, connection: int, number: int) -> str:
        if not number:
            return f"connection {connection}"
        return f"channel {PLACES.index((connection, number))}"

    def connection_of(self, place: str) -> str:
        """The place of the connection to which ``place`` belongs, or which it is."""
        kind, _, number = place.partition(" ")
        return f"connection {PLACES[int(number)][0]}" if kind == "channel" else place

    # ---- What has come -----------------------------------------------------------------

    def _account(self, connection: int, number: int, events: list[Event]) -> None:
        if not number:
            return
        on = PLACES.index((connection, number))
        for event in events:
            if "reply_to" in (event.properties or {}):
                self._reply_to = event.properties["reply_to"]
            if (
                event.name == "Basic.Deliver"
                and (on, event.fields["consumer_tag"]) not in self._automatic
            ):
                self.unacked.setdefault(on, []).append(event.fields["delivery_tag"])
            elif event.name in CONFIRMS:
                open_ = self.unconfirmed.get(on, set())
                open_ -= confirmed(event, open_)

    def _singly(self, connection: int, number: int, events: list[Event]) -> list[Event]:
        """The events, with cumulative confirms split into one per publish."""
        if not any(event.fields.get("multiple") for event in events):
            return events
        open_ = set(self.unconfirmed.get(PLACES.index((connection, number)), ()))
        single: list[Event] = []
        for event in events:
            if event.name not in CONFIRMS:
                single.append(event)
                continue
            tags = confirmed(event, open_) or {event.fields["delivery_tag"]}
            open_ -= tags
            single += (
                Event(event.name, {"delivery_tag": tag, "multiple": False}) for tag in sorted(tags)
            )
        return single

    def _confirmed(self, on: int) -> set[int]:
        connection, number = PLACES[on]
        events = self._links[connection].events[number][self._seen.get((connection, number), 0) :]
        open_ = self.unconfirmed[on]
        names = ("Basic.Ack", "Basic.Nack")
        return {tag for event in events if event.name in names for tag in confirmed(event, open_)}

    def _answered(self, on: int, args: dict[str, Any]) -> None:
        tag, open_ = args["which"], self.unacked.get(on, [])
        if args.get("multiple"):
            self.unacked[on] = [other for other in open_ if other > tag]
        elif tag in open_:
            open_.remove(tag)

    def _pass_channels(self) -> None:
        """Send a synchronous method on each channel: its answer comes after everything before
        it."""
        barrier = commands.Exchange.Declare(exchange="amq.direct", passive=True)
        asked = []
        for link in self._links.values():
            for number in sorted(link.open_channels):
                asked.append((link, number, len(link.events[number])))
                link.send(number, barrier)
        for link, number, seen in asked:
            answer = link.answer(number, seen, "Exchange.DeclareOk")
            if answer is not None:
                events = link.events[number]
                del events[next(n for n, event in enumerate(events) if event is answer)]

    def _observe(self) -> None:
        """Ask for the state of each queue, on a separate connection with one channel per queue."""
        observer = self._observer
        asked = []
        for name in sorted(self._observed):
            number = QUEUES.index(name) + 1
            if number not in observer.open_channels:
                observer.open_channel(number)
            method = commands.Queue.Declare(queue=self.prefix + name, passive=True)
            asked.append((name, number))
            observer.events[number].clear()
            observer.send(number, method)
        for name, number in asked:
            answer = observer.answer(number, 0, "Queue.DeclareOk")
            self._queues[name] = _state(answer, observer.events[number])
            if self._queues[name] == GONE:
                self._observed.discard(name)

    def _forget(self, method: base.Frame, answer: str) -> None:
        if 1 not in self._observer.open_channels:
            self._observer.open_channel(1)
        self._observer.call(1, method, answer)

    def _named(self, value: Any) -> Any:
        """``value`` with a program's small fixed names replaced by names of this program's own."""
        match value:
            case "gen":
                return self._generated or self.prefix + "gen"
            case "asker":
                return self._reply_to or self.prefix + "asker"
            case str() if OWN_NAME.fullmatch(value):
                return self.prefix + value
            case dict():
                return {key: self._named(inner) for key, inner in value.items()}
            case list():
                return [self._named(inner) for inner in value]
            case _:
                return value


def confirmed(event: Event, open_: Iterable[int]) -> set[int]:
    """The publishes among ``open_`` that one confirm covers."""
    tag = event.fields["delivery_tag"]
    return {other for other in open_ if other == tag or (event.fields["multiple"] and other < tag)}


def _state(answer: Event | None, events: list[Event]) -> Any:
    if answer is not None:
        return answer.fields["message_count"], answer.fields["consumer_count"]
    code = next((event.fields.get("reply_code") for event in events), None)
    return GONE if code == 404 else code


assert len(PLACES) == CHANNELS
