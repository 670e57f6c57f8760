"""The core's test kit: models, Hypothesis strategies, invariants and faulty parts.

The rule: for tests only, those of the frontends included. Nothing that a broker runs imports it,
and only it may need the packages of the ``dev`` extra.
"""
