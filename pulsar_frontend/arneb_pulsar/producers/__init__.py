"""Producers, over all connections: which may produce to a topic, and what they have sent already.

The rule: pure state without I/O; :mod:`arneb_pulsar.services` makes it durable where needed.
"""
