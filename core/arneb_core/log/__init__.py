"""A topic's entries: where they stand, how they are counted, which are in memory, which may go.

The rule: nothing here knows of subscriptions.
"""
