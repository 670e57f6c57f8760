"""A throttle: whether a connection may publish while a resource alarm is on.

The rule, as in RabbitMQ: a connection is blocked by its first publish after a resource has run
short, not before, and then for everything it sends, until nothing is short. If it asked for
notifications, it gets one when it is blocked and one when it is unblocked. While the log does not
answer, any request blocks the connection: an answer would describe the current state, and another
node may know better.
"""

from arneb_core.api.process.resource_alarms import NOTHING_SHORT, Resource, Short


class Throttle:
    """Whether one connection is blocked.

    Invariant: ``blocked`` implies that something is ``short``.
    """

    __slots__ = ("blocked", "holds_all", "short")

    def __init__(self) -> None:
        self.short: Short = NOTHING_SHORT
        self.blocked = False
        self.holds_all = False
        """Whether any request blocks the client."""

    def __repr__(self) -> str:
        return f"<Throttle {'blocked' if self.blocked else 'open'}, {self.reason}>"

    @property
    def reason(self) -> str:
        """The reason in the words of ``connection.blocked``."""
        if self.holds_all:
            return "the replicated log does not answer"
        return f"low on {' & '.join(sorted(each.value for each in self.short))}"

    def publish(self) -> bool:
        """Note a publish; True when it has blocked the client."""
        self.blocked = bool(self.short)
        return self.blocked

    def change(self, short: Short) -> bool:
        """Take the new set of short resources; True when that has unblocked the client."""
        self.holds_all = Resource.LOG in short
        self.short = short
        if short or not self.blocked:
            return False
        self.blocked = False
        return True
