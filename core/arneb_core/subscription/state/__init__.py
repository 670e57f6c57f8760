"""What a subscription's parts share: consumers, limits, what is in flight, what is to be done.

The rule: it is kept and counted here; nothing is decided.
"""
