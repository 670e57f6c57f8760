"""The node: the process of ``arneb serve``, and the broker in it.

The rule: this package imports everything that serves; only commands import it. ``process`` handles
signals and ends within time limits, ``node`` has the states in between.
"""
