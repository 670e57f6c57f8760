"""Schemas: what they are, whether one can be, and whether one goes with others.

The rule: pure functions without I/O; :mod:`arneb_pulsar.services.schemas` keeps what is attached.
"""
