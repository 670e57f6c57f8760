"""The consumers of a subscription: which may attach, what they may do with entries, redelivery.

The rule: a consumer can affect only entries that are in flight at it.
"""
