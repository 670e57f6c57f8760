"""Routing: clients may connect to any node, whichever node leads the shard that they use.

The rule: it relays bytes and gives out addresses. Frontends understand what clients say; here only
frame boundaries are known.
"""
