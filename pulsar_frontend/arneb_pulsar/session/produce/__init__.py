"""Produce: a connection's producers, the messages they send, and their receipts.

The rule: receipts leave in the order of the messages, whatever becomes of each.

Read in this order: ``producers``, ``damaged`` (runs with a message that cannot be stored).
"""
