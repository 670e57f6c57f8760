"""Brokers: the broker and its cluster, its tenants, health, settings and load.

The rule: one broker is a cluster of its own, and says so in Pulsar's documents.

Read in this order: ``clusters``, ``brokers``, ``broker_statistics``.
"""
