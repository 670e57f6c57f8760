"""The node over HTTP: the overview, what it uses, what came and went, and its health.

The rule: what is not measured here is left out, or is 0 where tools demand a number.
"""
