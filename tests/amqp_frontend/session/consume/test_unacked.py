"""Unacknowledged deliveries, compared with a model of a few lines."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from arneb_amqp.session.consume.unacked import Unacked
from arneb_amqp.session.deliveries import AnsweredDeliveries, ConsumerId
from arneb_core.api.entries.position import Position, position_at

consumers = st.integers(1, 3).map(ConsumerId)


def flat(groups: list[AnsweredDeliveries]) -> set[tuple[int, int, int]]:
    """Consumer, position and mask (0 means the whole entry) of everything in it."""
    whole = {(group.consumer, place, 0) for group in groups for place in group.positions}
    parts = {
        (group.consumer, place, 1 << bit)
        for group in groups
        for place, mask in group.masks.items()
        for bit in range(mask.bit_length())
        if mask >> bit & 1
    }
    assert len(whole) + len(parts) == sum(group.messages for group in groups)
    return whole | parts


class UnackedMachine(RuleBasedStateMachine):
    """Random deliveries and answers; the model is a dict from each tag to what was delivered."""

    def __init__(self) -> None:
        super().__init__()
        self.unacked = Unacked()
        self.model: dict[int, tuple[int, int, int]] = {}
        self.next_tag = 1
        self.next_entry = 0

    def positions(self, count: int) -> list[Position]:
        first, self.next_entry = self.next_entry, self.next_entry + count
        return [position_at(1, entry) for entry in range(first, first + count)]

    @rule(owner=consumers, count=st.integers(1, 6))
    def add(self, owner: ConsumerId, count: int) -> None:
        places = self.positions(count)
        assert self.unacked.add(owner, places) == self.next_tag
        for tag, place in enumerate(places, self.next_tag):
            self.model[tag] = owner, place, 0
        self.next_tag += count

    @rule(owner=consumers, size=st.integers(1, 4))
    def add_batch(self, owner: ConsumerId, size: int) -> None:
        positions = self.positions(1) * size
        parts = {index: index for index in range(size)}
        assert self.unacked.add_parts(owner, positions, parts) == self.next_tag
        for index in range(size):
            self.model[self.next_tag + index] = owner, positions[0], 1 << index
        self.next_tag += size

    @rule(count=st.integers(1, 3))
    def skip(self, count: int) -> None:
        assert self.unacked.skip(count) == self.next_tag
        self.next_tag += count

    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        tags = data.draw(st.lists(st.integers(0, self.next_tag), max_size=5))
        known, unknown = [], None
        for tag in tags:
            if tag not in self.model:
                unknown = tag
                break
            known.append(self.model.pop(tag))
        groups, refused = self.unacked.pop(tags)
        assert (flat(groups), refused) == (set(known), unknown)
        if unknown is not None:  # the channel would be closed
            for tag in tags:
                self.model.pop(tag, None)

    @rule(data=st.data())
    def take_through(self, data: st.DataObject) -> None:
        tag = data.draw(st.integers(0, self.next_tag))
        groups, refused = self.unacked.pop_through(tag)
        if tag and tag not in self.model:
            assert (groups, refused) == ([], tag)
            return
        taken = [each for each in self.model if not tag or each <= tag]
        assert flat(groups) == {self.model.pop(each) for each in taken}
        assert refused is None

    @rule(data=st.data())
    def take_and_restore(self, data: st.DataObject) -> None:
        if not self.model:
            return
        tags = data.draw(st.lists(st.sampled_from(sorted(self.model)), unique=True))
        pending = self.unacked.snapshot(tags)
        groups, _ = self.unacked.pop(tags)
        assert flat(groups) == {self.model[tag] for tag in tags}
        self.unacked.restore(pending)

    @rule()
    def take_all(self) -> None:
        assert flat(self.unacked.pop_all()) == set(self.model.values())
        self.model.clear()

    @invariant()
    def agrees(self) -> None:
        assert len(self.unacked) == len(self.model)
        assert self.unacked.next_tag == self.next_tag
        assert all(tag in self.unacked for tag in self.model)
        assert self.unacked.tags_through(0) == sorted(self.model)


TestUnacked = UnackedMachine.TestCase


def test_delivery_tags_go_up_to_the_largest_number() -> None:
    unacked = Unacked()
    unacked.next_tag = (1 << 63) - 2
    assert unacked.add(ConsumerId(1), [position_at(1, 0), position_at(1, 1)]) == (1 << 63) - 2
    groups, unknown = unacked.pop([(1 << 63) - 1])
    assert (groups[0].positions, unknown) == ([position_at(1, 1)], None)


def test_one_consumer_needs_one_group_and_no_second_dict() -> None:
    unacked = Unacked()
    unacked.add(ConsumerId(1), [position_at(1, entry) for entry in range(1000)])
    groups, _ = unacked.pop_through(500)
    assert [len(group.positions) for group in groups] == [500]
    assert unacked._owners is None
