"""The catalog: which topics and subscriptions there are, and how a start finds them in the store.

The rule: a start restores what was committed, no more and no less.
"""
