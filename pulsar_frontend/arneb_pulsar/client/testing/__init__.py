"""For tests of programs that use the client, and of the client itself: a broker in memory.

::

    broker = FakeBroker(Faults(seed=7, cut_bytes_mean=20_000))
    async with connect(broker.url, ClientOptions(dial=broker.dial)) as client: ...

The rule: what a broker may do, this one does when its seed says so: it answers late, loses
connections at any byte and with them receipts and acknowledgements, says things twice, moves topics
away. What a broker never does, it never does: what it has given a receipt for is there.
"""

from arneb_pulsar.client.testing.broker import FakeBroker
from arneb_pulsar.client.testing.faults import Faults

__all__ = ["FakeBroker", "Faults"]
