"""A subscription: its consumers, what is ready for them, and what becomes of it.

The rule: what it needs of the engine it is handed.
"""
