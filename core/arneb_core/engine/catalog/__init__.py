"""The catalog: which topics and subscriptions there are, and how a start finds them in the store.

The rule: what a start makes is what was committed, no more and no less.
"""
