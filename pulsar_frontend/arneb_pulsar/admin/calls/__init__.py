"""Calls: what a call says, which handler answers it, who may make it, and how it is refused.

The rule: pure; statuses and texts are Pulsar's.

Read in this order: ``requests`` (requests, replies and errors), ``paths`` (the names in a path),
``rules`` (who may), ``router`` (which handler), ``unsupported`` (calls that this broker does not
support).
"""
