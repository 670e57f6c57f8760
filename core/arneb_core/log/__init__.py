"""A topic's entries: their positions and counts, which are in memory, and which may go.

The rule: nothing here knows of subscriptions.
"""
