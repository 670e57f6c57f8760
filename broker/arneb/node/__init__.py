"""The node: the process of ``arneb serve``, and the broker in it.

The rule: this stands above all that serves; only commands stand above it. ``process`` obeys signals
and ends within limits, ``node`` has the states in between.
"""
