"""Routing: clients may connect to any node, whichever node leads the shard that they use.

The rule: it relays bytes and gives out addresses. Only frontends understand what clients say; this
package knows frame boundaries and nothing more.
"""
