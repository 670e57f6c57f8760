"""A throttle: whether a connection may publish while the broker runs short of something.

The rule, as in RabbitMQ: a connection is blocked by its first publish after something has run
short, not before, and then for everything it sends, until nothing is short any more. It is told
once when it is blocked and once when it is not any more, if it said that it wants to know. While
the log does not answer, whatever the client asks blocks it: any answer would tell how things are,
and another node may know better.
"""

from arneb_core.api.resource_alarms import NOTHING_SHORT, Resource, Short


class Throttle:
    """Whether one connection is blocked.

    Invariant: ``blocked`` implies that something is ``short``.
    """

    __slots__ = ("blocked", "holds_all", "short")

    def __init__(self) -> None:
        self.short: Short = NOTHING_SHORT
        self.blocked = False
        self.holds_all = False
        """Whatever the client asks blocks it."""

    def __repr__(self) -> str:
        return f"<Throttle {'blocked' if self.blocked else 'open'}, {self.reason}>"

    @property
    def reason(self) -> str:
        """In the words of ``connection.blocked``."""
        if self.holds_all:
            return "the replicated log does not answer"
        return f"low on {' & '.join(sorted(each.value for each in self.short))}"

    def publish(self) -> bool:
        """The client publishes; True when that has blocked it."""
        self.blocked = bool(self.short)
        return self.blocked

    def change(self, short: Short) -> bool:
        """What is short has changed; True when that has unblocked the client."""
        self.holds_all = Resource.LOG in short
        self.short = short
        if short or not self.blocked:
            return False
        self.blocked = False
        return True
