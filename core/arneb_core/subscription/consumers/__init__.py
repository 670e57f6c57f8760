"""The consumers of a subscription: who may join, what they may do with entries, what comes back.

The rule: what a consumer does reaches only entries that are in flight there.
"""
