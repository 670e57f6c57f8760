"""Consume: a connection's consumers, what they are sent and what they acknowledge.

The rule: a table (``transitions``) says what a consumer may do in which state.

Read in this order: ``subscribe`` (what SUBSCRIBE asks for), ``consumers``, ``consumer`` (one of
them), ``acknowledgements``.
"""
