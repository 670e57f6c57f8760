"""The protocol of the replicated log: what stands in a shard's topic, what of it counts, who leads.

The rule: bytes, events and ``now`` in, values and effects out; nothing here waits, reaches a socket
or reads a clock. ``docs/internals/cluster.md`` says it in words.
"""
