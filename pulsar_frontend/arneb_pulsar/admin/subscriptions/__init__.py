"""Subscriptions: created, moved, emptied and removed, and their messages looked at.

Read in this order: ``subscriptions``, ``backlogs``, ``expiry``, ``peeking``.
"""
