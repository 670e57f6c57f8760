"""A data directory opened: topics by name, group commit, threads, recovery.

The rule: only here does anything meet the event loop, a thread or the store's transactions.
"""
