"""Transactions as pure state: their records, their numbers, and how they ended.

The rule: nothing here waits, reads a clock, or knows the core's topics by more than their ids.
"""
