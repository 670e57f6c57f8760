"""The core's errors, which belong to no protocol.

The rule: each frontend maps these classes to its wire codes in one table, and a
test proves the table complete, so every error that a frontend may meet is a leaf here.

* :class:`CoreError`
    * :class:`TopicNotFound`, :class:`SubscriptionNotFound`
    * :class:`TopicExists`
    * :class:`SubscriptionTypeMismatch` - attach with another type than the present consumers
    * :class:`ConsumerBusy` - the subscription is exclusive, and another consumer has it
    * :class:`KeyRangesRefused` - a sticky consumer's ranges are missing, or another consumer's
    * :class:`SubscriptionBusy` - consumers or readers are attached, so it cannot be removed
    * :class:`SubscriptionFenced` - a seek or a removal is under way
    * :class:`TopicBusy` - the topic is in use, so it is not removed
    * :class:`AlreadyAcknowledged` - somebody has acknowledged it, perhaps in a transaction
    * :class:`NotAllowed` - legal, but not for this topic, type or state
    * :class:`CommitFailed` - nothing of the unit is durable
        * :class:`TopicFenced` - the topic is being deleted, or has gone
        * :class:`StoreFull` - disk or map is full; reading continues
        * :class:`StoreFailed` - the write or the flush failed
        * :class:`LeadershipLost` - another node writes the commit log now
* :class:`CommitInDoubt` - never leaves the core, which waits until the outcome is known
* :class:`StoreUnusable` - the store cannot be opened; one line for the user, exit status 2
    * :class:`StoreLocked`, :class:`FormatMismatch`, :class:`ForeignDirectory`,
      :class:`StoreDamaged`
* :class:`EngineBroken` - what is in memory may not be what is on disk; the broker ends
* :class:`EngineFenced` - another node leads; the engine ends, and this node may follow
"""


class CoreError(Exception):
    """Something that the core refuses or cannot do."""


class TopicNotFound(CoreError):
    """No topic of that name."""


class TopicExists(CoreError):
    """A topic of that name exists already."""


class SubscriptionNotFound(CoreError):
    """The topic has no subscription of that name."""


class SubscriptionTypeMismatch(CoreError):
    """The consumers already attached set another subscription type."""


class ConsumerBusy(CoreError):
    """The subscription takes only one consumer, and has one."""


class KeyRangesRefused(CoreError):
    """The ranges of key hashes that a consumer names are invalid, or overlap."""


class SubscriptionBusy(CoreError):
    """The subscription still has consumers."""


class SubscriptionFenced(CoreError):
    """The subscription is being reset or removed; the same request may succeed later."""


class TopicBusy(CoreError):
    """The topic is in use, and was to be removed only if it was not."""


class AlreadyAcknowledged(CoreError):
    """An entry that a transaction wants to acknowledge is acknowledged already, or withheld by
    another transaction."""


class NotAllowed(CoreError):
    """A legal request that does not fit the topic, the subscription type or the state."""


class CommitFailed(CoreError):
    """The unit is not durable, and no part of it will become so."""


class TopicFenced(CommitFailed):
    """The topic is being deleted or is gone: it takes nothing in any more."""


class StoreFull(CommitFailed):
    """The disk is full: appends are refused until there is room again."""


class StoreFailed(CommitFailed):
    """The write or the flush to disk failed."""


class LeadershipLost(CommitFailed):
    """Another node writes the commit log now: nothing more becomes durable here, and what was not
    stored never will be."""


class CommitInDoubt(Exception):
    """Whether the unit is durable is unknown until the disk can be used again."""


class StoreUnusable(Exception):
    """The data directory cannot be opened; the text is one line for the user."""


class StoreLocked(StoreUnusable):
    """Another broker has the data directory open."""


class FormatMismatch(StoreUnusable):
    """The store was written in a format that this version cannot read."""


class ForeignDirectory(StoreUnusable):
    """The directory holds something that is not an Arneb store."""


class EngineBroken(Exception):
    """An error in the commit path may have left memory different from the disk; nothing more is
    confirmed or delivered, and the next start reads the disk."""


class EngineFenced(Exception):
    """Another node leads; nothing more is confirmed or delivered here. What was stored is stored,
    and nothing else is."""


class StoreDamaged(StoreUnusable):
    """The store is ours, but the disk does not hold what was written."""


def describe(error: BaseException) -> str:
    """Return an error as part of one line: its text if that is written for people, else preceded by
    its type."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    text = " ".join(str(error).split())
    if isinstance(error, CoreError | StoreUnusable | ValueError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
