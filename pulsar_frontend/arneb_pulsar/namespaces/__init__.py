"""Namespaces: their policies and those of topics, and what follows from them, as pure values.

The rule: what is asked here is what is on disk; the words are those of Pulsar's admin API.
"""
