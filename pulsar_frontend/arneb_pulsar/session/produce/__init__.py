"""Produce: a connection's producers, the messages they send, and their receipts.

The rule: receipts are sent in the order of the messages, whether each was stored or not.

Read in this order: ``producers``, ``damaged`` (runs with a message that cannot be stored).
"""
