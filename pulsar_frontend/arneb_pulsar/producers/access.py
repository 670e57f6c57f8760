"""Access: which producers may use one topic, and in which epoch.

The rule: names are unique, and an exclusive producer is alone. Every new exclusive owner begins an
epoch; one that comes back with an older epoch was replaced meanwhile and is fenced. The caller must
make a new epoch durable before it admits the producer.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, TypeVar

NO_EPOCH: Final = -1
"""The topic never had an exclusive producer."""

Holder = TypeVar("Holder")


class AccessMode(Enum):
    """How a producer wants to share its topic."""

    SHARED = 0
    EXCLUSIVE = 1
    """Alone, or refused."""
    WAIT_FOR_EXCLUSIVE = 2
    """Alone, once its turn comes."""
    EXCLUSIVE_WITH_FENCING = 3
    """Alone, now: all others are fenced out."""


class Refusal(Enum):
    """Why a claim is refused: after BUSY it may be tried again, FENCED is final."""

    BUSY = "busy"
    FENCED = "fenced"


class ClaimRefused(Exception):
    """The claim is refused; nothing has changed."""

    def __init__(self, refusal: Refusal, text: str) -> None:
        super().__init__(text)
        self.refusal = refusal


@dataclass(slots=True, eq=False)
class Claim(Generic[Holder]):
    """One producer's claim to a name on a topic."""

    name: str
    mode: AccessMode
    epoch: int | None
    """The epoch that it had before, if it comes back."""
    holder: Holder

    def __repr__(self) -> str:
        epoch = "" if self.epoch is None else f" in epoch {self.epoch}"
        return f"<Claim to {self.name!r}, {self.mode.name}{epoch}, by {self.holder}>"


@dataclass(frozen=True, slots=True)
class Admission(Generic[Holder]):
    """The result of a claim, and its effect on others."""

    epoch: int | None = None
    """The epoch that begins or continues with it; None for shared producers."""
    queued: bool = False
    fenced: Sequence[Claim[Holder]] = ()
    """Owners and waiting claims that are fenced out by it."""


@dataclass(slots=True)
class Access(Generic[Holder]):
    """The claims on one topic.

    Invariants: while ``exclusive`` is set, it is the only owner; no claim waits while there is no
    owner.
    """

    epoch: int = NO_EPOCH
    owners: dict[str, Claim[Holder]] = field(default_factory=dict)
    exclusive: Claim[Holder] | None = None
    waiting: deque[Claim[Holder]] = field(default_factory=deque)

    def __repr__(self) -> str:
        alone = f" owned by {self.exclusive.name!r}" if self.exclusive is not None else ""
        counts = f"{len(self.owners)} owners, {len(self.waiting)} waiting"
        return f"<Access in epoch {self.epoch}{alone}, {counts}>"

    @property
    def unused(self) -> bool:
        """There are no claims."""
        return not (self.owners or self.waiting)

    def claim(self, claim: Claim[Holder]) -> Admission[Holder]:
        """Admit the claim, or queue it. Raises :class:`ClaimRefused`."""
        match claim.mode:
            case AccessMode.SHARED:
                return self._share(claim)
            case AccessMode.WAIT_FOR_EXCLUSIVE if self.owners:
                self.waiting.append(claim)
                return Admission(queued=True)
            case AccessMode.EXCLUSIVE if self.exclusive is not None:
                text = f"Topic has an existing exclusive producer: {self.exclusive.name}"
                raise ClaimRefused(Refusal.FENCED, text)
            case AccessMode.EXCLUSIVE if self.owners:
                raise ClaimRefused(Refusal.FENCED, "Topic has existing shared producers")
        self._check_epoch(claim)
        fenced = [*self.waiting, *self.owners.values()]
        self.waiting.clear()
        self.owners.clear()
        return Admission(self._own(claim), fenced=fenced)

    def release(self, claim: Claim[Holder]) -> Claim[Holder] | None:
        """Release a claim, owning or waiting; return the one that owns the topic instead, if
        any."""
        if self.owners.get(claim.name) is claim:
            del self.owners[claim.name]
            if self.exclusive is claim:
                self.exclusive = None
        elif claim in self.waiting:
            self.waiting.remove(claim)
        if self.owners or not self.waiting:
            return None
        promoted = self.waiting.popleft()
        self._own(promoted)
        return promoted

    def holds(self, claim: Claim[Holder]) -> bool:
        """Return whether it is an owner."""
        return self.owners.get(claim.name) is claim

    def _share(self, claim: Claim[Holder]) -> Admission[Holder]:
        if self.exclusive is not None:
            text = f"Topic has an existing exclusive producer: {self.exclusive.name}"
            raise ClaimRefused(Refusal.BUSY, text)
        if self.waiting:
            raise ClaimRefused(Refusal.BUSY, "Topic has producers that wait to be exclusive")
        if claim.name in self.owners:
            text = f"Producer with name '{claim.name}' is already connected to topic"
            raise ClaimRefused(Refusal.BUSY, text)
        self.owners[claim.name] = claim
        return Admission()

    def _check_epoch(self, claim: Claim[Holder]) -> None:
        if claim.epoch is not None and claim.epoch < self.epoch:
            text = (
                f"Topic epoch has already moved. Current epoch: {self.epoch},"
                f" Producer epoch: {claim.epoch}"
            )
            raise ClaimRefused(Refusal.FENCED, text)

    def _own(self, claim: Claim[Holder]) -> int:
        """Make it the only owner. The present epoch continues if the claim comes back with it."""
        if claim.epoch != self.epoch:
            self.epoch += 1
        self.owners[claim.name] = self.exclusive = claim
        return self.epoch
