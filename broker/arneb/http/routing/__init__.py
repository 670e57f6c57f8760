"""Routing over HTTP: which node answers a request, and whether it may.

The rule: a node answers only from what it knows itself.

Read in this order: ``targets`` (what a path is about), ``routed`` (which node serves it), ``asked``
(a request passed on); ``leased`` and ``caught_up`` delay an answer until it may be given.
"""
