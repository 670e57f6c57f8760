"""Limits: how much clients may send, get and keep, and how much they do.

The rule: a topic without a limit costs one look-up; clients already attached stay when a limit is
lowered.

Read in this order: ``rates`` (what is received and sent), ``resource_groups`` and ``throttles``
(how fast producers may be), ``dispatch_throttles`` (how fast consumers are sent messages),
``subscribe_rates``, ``topic_limits`` (how many clients a topic may have), ``quotas`` (how large a
backlog may be).
"""
