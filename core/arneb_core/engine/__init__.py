"""The engine over one data directory: topics by name, group commit, threads, recovery.

The rule: only this package touches the event loop, threads and the store's transactions.
"""
