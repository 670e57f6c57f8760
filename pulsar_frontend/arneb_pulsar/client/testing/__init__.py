"""A broker in memory, for tests of the client and of programs that use it.

::

    broker = FakeBroker(Faults(seed=7, cut_bytes_mean=20_000))
    async with connect(broker.url, ClientOptions(dial=broker.dial)) as client: ...

The rule: what a real broker may do, this one does when its seed says so: it answers late, loses
connections at any byte, with receipts and acknowledgements, repeats receipts, and moves topics to
another broker. What a real broker never does, it never does: a message with a receipt is stored.
"""

from arneb_pulsar.client.testing.broker import FakeBroker
from arneb_pulsar.client.testing.faults import Faults

__all__ = ["FakeBroker", "Faults"]
