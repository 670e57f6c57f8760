"""A topic's entries: their positions and counts, which are in memory, and which may be trimmed.

The rule: nothing here knows subscriptions.
"""
