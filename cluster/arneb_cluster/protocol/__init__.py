"""The protocol of the replicated log: the entries of a shard's topic, which of them count, and who
leads.

The rule: bytes, events and ``now`` in, values and effects out; nothing here waits, reaches a socket
or reads a clock. ``docs/internals/cluster.md`` describes it.
"""
