"""Transactions as pure state: what one has done so far, what is kept of it, and how it ended.

The rule: nothing here waits, reads a clock or knows the core's topics by more than their ids.
"""
