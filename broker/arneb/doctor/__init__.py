"""``arneb doctor``: what is wrong with a broker or its data, and what to do.

The rule: it looks and changes nothing, and every finding says what to do.
"""
