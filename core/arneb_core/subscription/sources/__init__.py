"""Where a subscription's next entries come from: the log, what came back, what came due.

The rule: a source knows positions and bytes, and no consumer.
"""
