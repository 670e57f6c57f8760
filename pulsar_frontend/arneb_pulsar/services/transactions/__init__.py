"""Transactions: those of Pulsar's clients, from their beginning to the commit that ends them.

The rule: what is done in a transaction is on disk before the client is told that it was accepted,
and counts for others with one commit, or never.

Read in this order: ``coordinator`` (all of them), ``beginning``, ``open_transaction`` (one of
them), ``held_records`` (its log), ``ending``; ``recovered`` has those of an earlier run.
"""
