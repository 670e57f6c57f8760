"""What a subscription's parts share: consumers, limits, entries in flight, effects to carry out.

The rule: state is kept and counted here; nothing is decided.
"""
