"""Namespaces: their policies and those of topics, and what follows from them, as pure values.

The rule: these values are what is on disk; the names are those of Pulsar's admin API.
"""
