"""Schemas: their definitions, whether one is valid, and whether it is compatible with others.

The rule: pure functions without I/O; :mod:`arneb_pulsar.services.topics.schemas` stores attached
schemas.
"""
