"""Producers, over all connections: who may produce on a topic, and what it has sent already.

The rule: pure state without I/O; :mod:`arneb_pulsar.server` makes durable what must be.
"""
