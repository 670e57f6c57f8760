"""Subscriptions: created, moved, cleared and removed, and their messages inspected.

Read in this order: ``subscriptions``, ``backlogs``, ``expiry``, ``peeking``.
"""
