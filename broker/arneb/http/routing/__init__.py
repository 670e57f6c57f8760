"""Routing over HTTP: which node answers a request, and whether it may.

The rule: a node says nothing that it does not know itself.

Read in this order: ``targets`` (what a path is about), ``routed`` (who has it), ``asked`` (a
request passed on); ``leased`` and ``caught_up`` hold an answer back until it may be given.
"""
