"""Limits: how much clients may send, get and keep, and how much they do.

The rule: a topic without a limit costs one look-up; who is attached already stays when a limit
becomes lower.

Read in this order: ``rates`` (how much comes and goes), ``resource_groups`` and ``throttles`` (how
fast producers may be), ``dispatch_throttles`` (how fast consumers are sent messages),
``subscribe_rates``, ``topic_limits`` (how many may come), ``quotas`` (how much may stay).
"""
