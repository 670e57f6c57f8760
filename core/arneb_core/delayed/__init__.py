"""Delayed delivery: entries that are not to be delivered before their due time.

The rule: a topic has one index of its delayed entries, which all its subscriptions share; each has
its own position in it. How that works: docs/internals/delayed.md.
"""
