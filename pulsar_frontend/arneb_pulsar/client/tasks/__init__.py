"""Tasks: what those of a client wait for, and how they end.

The rule: one task does all timers of a client, and every wait can be cancelled.

Read in this order: ``waiting`` (results and signals), ``room`` (bounds that are waited for),
``clock`` (timers), ``closing``, ``statistics_log`` (a line for each producer and consumer).
"""
