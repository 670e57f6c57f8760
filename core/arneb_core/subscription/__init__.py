"""A subscription: its consumers, the entries ready for them, and what happens to those.

The rule: whatever it needs from the engine is passed in.
"""
