"""Who receives which entry: pure, synchronous decisions.

The rule: a dispatcher is told how many entries are at hand and answers with
shares; it reads no log, calls no sink and waits for nothing. The subscription acts
on the answer. One module a subscription type.
"""

from arneb_core.dispatch.receiver import UNBOUNDED, Receiver
from arneb_core.dispatch.shared import Share, SharedDispatcher

__all__ = ["UNBOUNDED", "Receiver", "Share", "SharedDispatcher"]
