"""A channel, compared with a model of twenty lines: tags, acks, requeues and prefetch, over the
wire."""

from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pamqp.commands import Basic, Channel
from tests.amqp_frontend.session.playbook import Delivered, client, opened, run_of, sent

from arneb_amqp.session.effects import Acknowledge, Consume, Leave, Reject, Release
from arneb_amqp.session.events import RequestDone
from arneb_amqp.wire.constants import ChannelId
from arneb_core.api.entries.position import Position, position_at
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.windows import Window

TAGS = st.integers(0, 40)


class Model:
    """A queue, and what each delivery tag stands for."""

    def __init__(self) -> None:
        self.ready: deque[Position] = deque(position_at(1, entry) for entry in range(200))
        self.next_tag = 1
        self.out: dict[int, tuple[int, Position]] = {}

    def deliver(self, consumer: int, count: int) -> list[Position]:
        places = [self.ready.popleft() for _ in range(min(count, len(self.ready)))]
        for place in places:
            self.out[self.next_tag] = consumer, place
            self.next_tag += 1
        return places

    def settle(self, tag: int, multiple: bool) -> list[tuple[int, Position]] | None:
        """The deliveries that an answer to ``tag`` concerns; None if the answer is an error."""
        if multiple and tag == 0:
            tags = list(self.out)
        elif tag not in self.out:
            return None
        else:
            tags = [each for each in self.out if each <= tag] if multiple else [tag]
        return [self.out.pop(each) for each in tags]


class ChannelMachine(RuleBasedStateMachine):
    """Two consumers on a channel. The test itself keeps to the prefetch limits, as the core
    does."""

    def __init__(self) -> None:
        super().__init__()
        self.play = opened()
        self.model = Model()
        self.windows: dict[int, tuple[Window, ...]] = {}

    @initialize(limits=st.tuples(st.integers(0, 5), st.integers(0, 5)), shared=st.integers(0, 8))
    def consume(self, limits: tuple[int, int], shared: int) -> None:
        self.qos(shared, is_global=True)
        for id_, limit in enumerate(limits, 1):
            self.play.session._channel(ChannelId(1)).deliverer.prefetch = limit
            self.play >> client(Basic.Consume, queue="q", consumer_tag=f"c{id_}")
            self.windows[id_] = self.play.effect(Consume).wanted.windows
            self.play >> RequestDone() << sent(Basic.ConsumeOk)

    def qos(self, count: int, *, is_global: bool) -> None:
        self.play >> client(Basic.Qos, prefetch_count=count, prefetch_size=0, global_=is_global)
        self.play << sent(Basic.QosOk)
        self.play.effects.clear()

    def room(self, consumer: int) -> int:
        rooms = [
            window.limit - window.in_flight for window in self.windows[consumer] if window.limit
        ]
        return max(0, min(rooms, default=10))

    @rule(consumer=st.integers(1, 2), count=st.integers(1, 6))
    def deliver(self, consumer: int, count: int) -> None:
        places = self.model.deliver(consumer, min(count, self.room(consumer)))
        if not places:
            return
        for window in self.windows[consumer]:
            window.in_flight += len(places)
        first = self.model.next_tag - len(places)
        run = Deliveries(places, run_of(0, 1).entries * len(places))
        self.play >> Delivered(consumer, run)
        for tag in range(first, self.model.next_tag):
            self.play << sent(Basic.Deliver, delivery_tag=tag, consumer_tag=f"c{consumer}")

    @rule(tag=TAGS, multiple=st.booleans())
    def ack(self, tag: int, multiple: bool) -> None:
        self.play >> client(Basic.Ack, delivery_tag=tag, multiple=multiple)
        self.check(Acknowledge, self.model.settle(tag, multiple))

    @rule(tag=TAGS, multiple=st.booleans(), requeue=st.booleans())
    def nack(self, tag: int, multiple: bool, requeue: bool) -> None:
        self.play >> client(Basic.Nack, delivery_tag=tag, multiple=multiple, requeue=requeue)
        self.check(Release if requeue else Reject, self.model.settle(tag, multiple))

    @rule(tag=TAGS, requeue=st.booleans())
    def reject(self, tag: int, requeue: bool) -> None:
        self.play >> client(Basic.Reject, delivery_tag=tag, requeue=requeue)
        self.check(Release if requeue else Reject, self.model.settle(tag, multiple=False))

    @rule()
    def recover(self) -> None:
        self.play >> client(Basic.Recover, requeue=True) << sent(Basic.RecoverOk)
        self.check(Release, self.model.settle(0, multiple=True))

    @precondition(lambda self: self.windows)
    @rule(count=st.integers(0, 8))
    def change_shared_prefetch(self, count: int) -> None:
        self.qos(count, is_global=True)

    def check(self, kind: type, settled: list[tuple[int, Position]] | None) -> None:
        play = self.play
        if settled is None:
            play << sent(Channel.Close, reply_code=406)
            assert set(play.effect(Leave).consumers) == {1, 2}
            self.begin_again()
            return
        got = []
        while play.effects:
            effect = play.effect(kind)
            for place in effect.answered.positions:
                got.append((effect.answered.consumer, place))
                for window in self.windows[effect.answered.consumer]:
                    window.in_flight -= 1
        assert sorted(got) == sorted(settled)
        if kind is Release:
            back = [place for _, place in settled]
            self.model.ready = deque(sorted([*self.model.ready, *back]))

    def begin_again(self) -> None:
        """Close the channel; everything in flight returns to the queue."""
        self.play = opened()
        self.model.ready = deque(
            sorted([*self.model.ready, *(place for _, place in self.model.out.values())])
        )
        self.model.out.clear()
        self.model.next_tag = 1
        self.consume((3, 0), 4)

    @invariant()
    def nobody_holds_more_than_the_limits_allow(self) -> None:
        unacked = self.play.session._channel(ChannelId(1)).deliverer.answers.unacked
        assert len(unacked) == len(self.model.out)
        assert not self.play.frames
        assert not self.play.effects


TestChannel = ChannelMachine.TestCase
TestChannel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
