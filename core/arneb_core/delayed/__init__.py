"""Delayed delivery: entries that are not to be delivered before a time of their own.

The rule: a topic has one index of its delayed entries, which all its subscriptions share; each has
its own place in it. How that works: docs/internals/delayed.md.
"""
