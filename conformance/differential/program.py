"""Random programs: what a step is, and how Hypothesis draws a list of them.

The rule: a step refers to things by small fixed names (``q0``, ``e1``, channel 2, "the third
unacknowledged message"), never by names that a broker chose. So any part of a program is itself a
program and can be played alone.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final

from conformance.differential.mistakes import MISTAKES
from conformance.differential.vocabulary import (
    ALTERNATES,
    ASKS,
    CHANNELS,
    CONSUMER_ARGUMENTS,
    DYING_ARGUMENTS,
    EXCHANGE_ARGUMENTS,
    EXCHANGES,
    FORGED,
    HASTY_ARGUMENTS,
    HEADER_BINDINGS,
    HEADERS,
    KEYS,
    LENGTHS,
    LONG,
    OVERFLOWS,
    PATTERNS,
    QUEUE_ARGUMENTS,
    QUEUES,
    QUORUM_ARGUMENTS,
    SHORT,
    STANDARD_EXCHANGES,
    STREAM_ARGUMENTS,
    STREAM_OFFSETS,
    WRONG_QUEUE_ARGUMENTS,
)
from hypothesis import strategies as st


class Kind(Enum):
    """What a program is mostly about."""

    USUAL = "usual"
    HASTY = "hasty"
    """Messages expire while the program is played."""
    DYING = "dying"
    """Messages are dead-lettered from one queue to the next, and some claim to have died before."""
    QUORUM = "quorum"
    STREAM = "stream"


SLOW_TYPES: Final = {Kind.QUORUM: "quorum", Kind.STREAM: "stream"}


class Step:
    """One action of a client. Its ``repr`` is Python source that makes it again."""

    def __init__(self, do: str, on: int = 0, /, **args: Any) -> None:
        self.do = do
        self.on = on
        self.args = args

    def __repr__(self) -> str:
        args = "".join(f", {name}={value!r}" for name, value in self.args.items())
        return f"Step({self.do!r}, {self.on}{args})"


Program = list[Step]

queues = st.sampled_from((*(QUEUES * 7), "gen", "q9", ""))
"""The empty name means the queue that the channel declared last."""
exchanges = st.sampled_from((*(EXCHANGES * 5), "amq.direct", "amq.topic", "e9"))
# Sampled instead of comparing a drawn number, because Hypothesis prefers the limits of ranges.
rarely = st.sampled_from((False,) * 9 + (True,))
seldom = st.sampled_from((False,) * 29 + (True,))
never_nearly = st.sampled_from((False,) * 199 + (True,))
flag = st.booleans()


@st.composite
def properties(draw: st.DrawFn, kind: Kind) -> dict[str, Any]:
    """No properties in most messages, and rarely wrong ones."""
    given: dict[str, Any] = {}
    if draw(flag):
        given["delivery_mode"] = draw(st.sampled_from((1, 2)))
    if draw(rarely):
        given |= {"content_type": "text/plain", "message_id": "m", "app_id": "a", "priority": 3}
    if draw(rarely):
        given |= {"reply_to": "me", "correlation_id": "c", "message_type": "t"}
    if draw(rarely):
        given["priority"] = draw(st.sampled_from((0, 1, 2, 3, 4, 255)))
    hasty = kind is Kind.HASTY
    if draw(flag if hasty else rarely):
        lives = (str(LONG), "0", "soon", "-1", *((str(SHORT),) * 8 if hasty else ()))
        given["expiration"] = draw(st.sampled_from(lives))
    if draw(seldom):
        given["user_id"] = draw(st.sampled_from(("guest", "somebody")))
    forged = FORGED if kind is Kind.DYING else ()
    if headers := draw(st.sampled_from((*([HEADERS[0]] * 4), *HEADERS, *forged))):
        given["headers"] = headers
    return given


def step(do: str, **args: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    """Steps of one kind on any channel; arguments drawn as None are left out."""
    return st.builds(
        lambda on, given: Step(
            do, on, **{name: value for name, value in given.items() if value is not None}
        ),
        st.integers(0, CHANNELS - 1),
        st.fixed_dictionaries(args),
    )


def or_left_out(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def true_rarely(strategy: st.SearchStrategy[bool] = rarely) -> st.SearchStrategy[bool | None]:
    return strategy.map(lambda drawn: drawn or None)


@st.composite
def right_arguments(draw: st.DrawFn, kinds: tuple[tuple[dict[str, Any], ...], ...]) -> Any:
    """Valid arguments of queues: mostly one, sometimes several at once."""
    arguments: dict[str, Any] = {}
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3)):
        arguments |= draw(st.sampled_from(kind))
        if kind is LENGTHS:
            arguments |= draw(st.sampled_from(OVERFLOWS))
    return arguments


RIGHT: Final = {
    Kind.USUAL: right_arguments(QUEUE_ARGUMENTS),
    Kind.HASTY: right_arguments(HASTY_ARGUMENTS),
    Kind.DYING: st.builds(
        lambda grave, more: {**grave, **more},
        st.sampled_from(DYING_ARGUMENTS[0]),
        right_arguments(DYING_ARGUMENTS),
    ),
    Kind.QUORUM: (st.just({}) | right_arguments(QUORUM_ARGUMENTS)).map(
        lambda arguments: {"x-queue-type": "quorum", **arguments}
    ),
    Kind.STREAM: st.sampled_from((False, False, True))
    .flatmap(lambda more: right_arguments(STREAM_ARGUMENTS) if more else st.just({}))
    .map(lambda arguments: {"x-queue-type": "stream", **arguments}),
}


def declare_queue(kind: Kind) -> st.SearchStrategy[Step]:
    """A queue of any sort, declared correctly or not."""
    wrong_or_right = st.sampled_from(
        (st.none(),) * 12 + (RIGHT[kind],) * 17 + (st.sampled_from(WRONG_QUEUE_ARGUMENTS),)
    )
    return step(
        "queue_declare",
        queue=st.sampled_from((*QUEUES, *QUEUES, *QUEUES, "", "amq.mine")),
        durable=true_rarely(st.just(True) if kind in SLOW_TYPES else flag),
        exclusive=true_rarely(seldom if kind in SLOW_TYPES else rarely),
        auto_delete=true_rarely(seldom if kind in SLOW_TYPES else rarely),
        arguments=wrong_or_right.flatmap(lambda chosen: chosen),
    )


# Nearly always with the same flags, so that an existing queue usually matches and is not refused.
declare_plain_queue = step("queue_declare", queue=st.sampled_from(QUEUES), nowait=true_rarely())
declare_passively = step("queue_declare", queue=queues, passive=st.just(True))
declare_exchange = step(
    "exchange_declare",
    exchange=st.sampled_from((*EXCHANGES, *EXCHANGES, *EXCHANGES, "amq.direct", "amq.new", "")),
    exchange_type=st.sampled_from(("direct", "fanout", "topic", "headers", "direct", "odd")),
    durable=true_rarely(),
    auto_delete=true_rarely(),
    internal=true_rarely(),
    passive=true_rarely(),
    arguments=or_left_out(st.sampled_from(EXCHANGE_ARGUMENTS)),
    nowait=true_rarely(),
)
declare_plain_exchange = st.builds(
    lambda on, named: Step("exchange_declare", on, exchange=named[0], exchange_type=named[1]),
    st.integers(0, CHANNELS - 1),
    st.sampled_from(STANDARD_EXCHANGES),
)
binding: Final[dict[str, st.SearchStrategy[Any]]] = {
    "routing_key": st.sampled_from(PATTERNS),
    "arguments": or_left_out(st.sampled_from(HEADER_BINDINGS)),
}
hurried = {**binding, "nowait": true_rarely()}


def publish(kind: Kind) -> st.SearchStrategy[Step]:
    """A message to any exchange, with any properties."""
    return step(
        "publish",
        exchange=st.sampled_from(("", "")) | exchanges,
        routing_key=st.sampled_from(KEYS),
        mandatory=true_rarely(flag),
        immediate=true_rarely(never_nearly),
        properties=properties(kind),
        size=st.sampled_from((None, None, None, None, 0, 5000, 200_000)),
    )


publish_straight = step(
    "publish", routing_key=st.sampled_from(QUEUES), mandatory=true_rarely(), many=st.integers(1, 4)
)


def consume(kind: Kind) -> st.SearchStrategy[Step]:
    """A consumer on any queue. One that chooses its own tag does not have to wait for the
    answer."""
    arguments = STREAM_OFFSETS if kind is Kind.STREAM else CONSUMER_ARGUMENTS
    given = {
        "queue": queues,
        "no_ack": true_rarely(),
        "exclusive": true_rarely(),
        "arguments": or_left_out(st.sampled_from(arguments)),
    }
    waits = step("consume", consumer_tag=st.sampled_from(("c0", "c1", "c2", "")), **given)
    tag = st.sampled_from(("c0", "c1", "c2"))
    does_not = step("consume", consumer_tag=tag, nowait=st.just(True), **given)
    return rarely.flatmap(lambda hurries: does_not if hurries else waits)


def qos(kind: Kind) -> st.SearchStrategy[Step]:
    """A consumer of a stream must have a prefetch. It is large, because RabbitMQ delivers whole
    chunks, however small the prefetch is."""
    if kind is Kind.STREAM:
        return step("qos", prefetch_count=st.just(1000), global_=true_rarely())
    return step("qos", prefetch_count=st.integers(0, 3), global_=true_rarely(flag))


which = st.integers(0, 5)
acks = (
    step("ack", which=which, multiple=true_rarely(flag)),
    step("nack", which=which, multiple=true_rarely(flag), requeue=flag),
    step("reject", which=which, requeue=flag),
)
delete_queue = step(
    "queue_delete",
    queue=queues,
    if_unused=true_rarely(flag),
    if_empty=true_rarely(flag),
    nowait=true_rarely(),
)
bind = step("queue_bind", queue=queues, exchange=exchanges, **hurried)
tags_that_never_were = st.sampled_from((-1, -2, -3))
# Nobody listens there; RabbitMQ gives its replies no delivery tags of their own.
reply_queue = st.sampled_from(("amq.rabbitmq.reply-to",))
rare = (
    step("qos", prefetch_size=st.just(7), prefetch_count=st.just(1)),
    step("consume", queue=reply_queue, consumer_tag=st.just("c2")),
    step("queue_declare", queue=reply_queue, passive=st.just(True)),
    step("publish", routing_key=st.sampled_from(QUEUES), properties=st.just(ASKS)),
    step("publish", routing_key=reply_queue, mandatory=true_rarely(flag)),
    step("ack", which=tags_that_never_were, multiple=true_rarely(flag)),
    step("nack", which=tags_that_never_were, requeue=flag),
    delete_queue,
    delete_queue,
    step("exchange_delete", exchange=exchanges, if_unused=true_rarely(flag), nowait=true_rarely()),
    step("close_channel"),
    step("close_connection"),
    step("drop_connection"),
    step("exchange_unbind", destination=exchanges, source=exchanges, **hurried),
    step("confirm_select"),
    step("confirm_select", nowait=true_rarely(flag)),
    step("mistake", what=st.sampled_from(tuple(MISTAKES))),
    step("update_secret", new_secret=st.just("guest"), reason=st.just("why not")),
    step("flow", active=st.just(True)),
)
usual = (
    declare_passively,
    declare_exchange,
    declare_plain_queue,
    declare_plain_exchange,
    bind,
    step("queue_unbind", queue=queues, exchange=exchanges, **binding),
    step("exchange_bind", destination=exchanges, source=exchanges, **hurried),
    step("purge", queue=queues, nowait=true_rarely()),
    step("cancel", consumer_tag=st.sampled_from(("c0", "c1", "c2", "c9")), nowait=true_rarely()),
)
recovers = (
    step("recover", requeue=st.just(True)),
    step("recover", requeue=st.just(True)),
    step("recover", requeue=st.sampled_from((True, True, True, False))),
    step("recover_async", requeue=st.sampled_from((True, True, True, False))),
)
"""Not used with streams: ``DIFFERENCES.md``."""
often = (
    publish_straight,
    publish_straight,
    step("get", queue=queues, no_ack=true_rarely(flag)),
    *acks,
)
transactions = (step("tx_select"), step("tx_commit"), step("tx_commit"), step("tx_rollback"))


def beginning(draw: st.DrawFn, kind: Kind) -> Program:
    """Declare queues, exchanges and bindings, so that the rest has something to work on."""
    steps = []
    for queue in QUEUES:
        arguments = draw(st.none() | RIGHT[kind])
        durable = draw(flag) or (kind in SLOW_TYPES and arguments is not None)
        given = {"queue": queue, "durable": durable or None, "arguments": arguments}
        steps.append(Step("queue_declare", 0, **{n: v for n, v in given.items() if v is not None}))
    for exchange, type_ in STANDARD_EXCHANGES:
        given = {"exchange": exchange, "exchange_type": type_}
        if draw(rarely):
            given["arguments"] = draw(st.sampled_from(ALTERNATES))
        steps.append(Step("exchange_declare", 0, **given))
    return [*steps, *(draw(bind) for _ in QUEUES)]


@st.composite
def programs(draw: st.DrawFn, steps: int, *, tx: bool, among: Sequence[Kind]) -> Program:
    """Programs of exactly ``steps`` steps, of one of the kinds in ``among``."""
    kind = draw(st.sampled_from(among))
    kinds = st.sampled_from(
        [
            *((publish(kind), publish(kind), consume(kind), *often) * 6),
            *((declare_queue(kind), qos(kind), *usual) * 2),
            *rare,
            *(() if kind is Kind.STREAM else recovers),
            *(transactions * 4 if tx and draw(flag if kind is Kind.DYING else rarely) else ()),
        ]
    )
    begun = beginning(draw, kind) if draw(flag) or draw(flag) else []
    return [*begun, *(draw(draw(kinds)) for _ in range(steps - len(begun)))]
