"""Trimming: what is removed from the front of a topic's log once nobody needs it.

The rule: of subscriptions it knows only their mark-delete positions.
"""
