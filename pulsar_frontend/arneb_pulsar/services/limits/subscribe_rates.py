"""Subscribe rates: how often the same consumer may subscribe to a topic.

The rule: only topics with a rate cost anything, and a consumer is forgotten when its period ends.
"""

from arneb_core.api.topics.topic import Topic
from arneb_pulsar.names import TopicName
from arneb_pulsar.services.clock import Clock
from arneb_pulsar.services.namespaces.registry import NamespaceRegistry
from arneb_pulsar.session.errors import RequestRefused
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

Who = tuple[int, str, str, int]
"""A consumer: the topic's id, its client's address without the port, its name, and its number."""


class SubscribeRates:
    """The subscribe rates of all topics of one broker."""

    def __init__(self, namespaces: NamespaceRegistry, clock: Clock) -> None:
        self._namespaces = namespaces
        self._clock = clock
        self._came: dict[Who, tuple[float, int]] = {}
        """When a consumer's period ends, and how often it subscribed in it; the oldest first."""

    def __repr__(self) -> str:
        return f"<SubscribeRates, {len(self._came)} consumers came>"

    def check(
        self, topic: Topic, name: TopicName, address: str, consumer: str, consumer_id: int
    ) -> None:
        """Count a consumer that subscribes; raise :class:`RequestRefused` if it does so too
        often."""
        rate = self._namespaces.policies(name).subscribe_rate
        if rate is None or not rate.limits:
            return
        now = self._clock.now()
        while self._came and self._came[first := next(iter(self._came))][0] <= now:
            del self._came[first]
        who = topic.id, address.rpartition(":")[0], consumer, consumer_id
        end, count = self._came.get(who, (now + max(1, rate.period_s), 0))
        if count >= rate.subscribes:
            text = "Subscribe limited by subscribe rate limit per consumer."
            raise RequestRefused(pb.NotAllowedError, text)
        self._came[who] = end, count + 1

    def forget(self, topic: Topic) -> None:
        """Forget the consumers of a topic that was unloaded: that makes all of them come again."""
        self._came = {who: when for who, when in self._came.items() if who[0] != topic.id}
