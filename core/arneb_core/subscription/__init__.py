"""A subscription: its consumers, the entries ready for them, and what becomes of those.

The rule: whatever it needs from the engine is passed in.
"""
