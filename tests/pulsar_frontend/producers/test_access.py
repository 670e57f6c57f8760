"""Who may produce on a topic: random claims and departures against a small model."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from arneb_pulsar.producers.access import (
    NO_EPOCH,
    Access,
    AccessMode,
    Claim,
    ClaimRefused,
    Refusal,
)

SHARED, EXCLUSIVE = AccessMode.SHARED, AccessMode.EXCLUSIVE
WAIT, FENCE = AccessMode.WAIT_FOR_EXCLUSIVE, AccessMode.EXCLUSIVE_WITH_FENCING

NAMES = st.sampled_from("abcd")


def make(mode: AccessMode, name: str = "a", epoch: int | None = None) -> Claim[str]:
    return Claim(name, mode, epoch, "holder")


class Claims(RuleBasedStateMachine):
    """The model: owners and the queue as plain lists, and the highest epoch ever told."""

    def __init__(self) -> None:
        super().__init__()
        self.access: Access[str] = Access()
        self.owners: list[Claim[str]] = []
        self.queue: list[Claim[str]] = []
        self.epoch = NO_EPOCH

    @rule(name=NAMES, mode=st.sampled_from(AccessMode), age=st.none() | st.integers(0, 2))
    def claim(self, name: str, mode: AccessMode, age: int | None) -> None:
        epoch = None if age is None else max(0, self.epoch - age)
        claim = make(mode, name, epoch)
        alone = [each for each in self.owners if each.mode is not SHARED]
        stale = epoch is not None and epoch < self.epoch
        if mode is SHARED:
            refused = Refusal.BUSY if alone or self.queue else None
            if any(each.name == name for each in self.owners):
                refused = Refusal.BUSY
        elif mode is EXCLUSIVE:
            refused = Refusal.FENCED if self.owners or stale else None
        elif mode is WAIT:
            refused = Refusal.FENCED if stale and not self.owners else None
        else:
            refused = Refusal.FENCED if stale else None
        if refused is not None:
            with pytest.raises(ClaimRefused) as caught:
                self.access.claim(claim)
            assert caught.value.refusal is refused
            return
        admission = self.access.claim(claim)
        if mode is WAIT and self.owners:
            assert admission.queued
            self.queue.append(claim)
            return
        if mode is SHARED:
            assert admission.epoch is None and not admission.fenced
            self.owners.append(claim)
            return
        assert list(admission.fenced) == self.queue + self.owners
        self.queue.clear()
        self.own(claim)
        assert admission.epoch == self.epoch

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        present = self.owners + self.queue
        if not present:
            return
        claim = data.draw(st.sampled_from(present))
        promoted = self.access.release(claim)
        if claim in self.queue:
            self.queue.remove(claim)
        else:
            self.owners.remove(claim)
        if self.owners or not self.queue:
            assert promoted is None
        else:
            assert promoted is self.queue[0]
            self.own(self.queue.pop(0))

    def own(self, claim: Claim[str]) -> None:
        self.owners = [claim]
        if claim.epoch != self.epoch:
            self.epoch += 1

    @invariant()
    def agrees(self) -> None:
        assert list(self.access.owners.values()) == self.owners
        assert list(self.access.waiting) == self.queue
        assert self.access.epoch == self.epoch
        assert self.access.unused is (not self.owners)
        alone = [each for each in self.owners if each.mode is not SHARED]
        assert self.access.exclusive is (alone[0] if alone else None)
        assert not alone or len(self.owners) == 1


TestClaims = Claims.TestCase


def test_a_released_claim_is_released_once() -> None:
    access: Access[str] = Access()
    first, second = make(EXCLUSIVE), make(SHARED)
    access.claim(first)
    access.release(first)
    access.claim(second)
    assert access.release(first) is None
    assert access.holds(second)


def test_one_that_was_replaced_may_not_come_back() -> None:
    access: Access[str] = Access()
    first = access.claim(make(EXCLUSIVE, "a")).epoch
    access.claim(make(FENCE, "b"))
    for mode in (EXCLUSIVE, FENCE):
        with pytest.raises(ClaimRefused, match=r"existing exclusive|epoch has already moved"):
            access.claim(make(mode, "a", first))


def test_an_epoch_that_was_never_given_begins_a_new_one() -> None:
    access: Access[str] = Access()
    assert access.claim(make(EXCLUSIVE, "a", (1 << 64) - 1)).epoch == 0
