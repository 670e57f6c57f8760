"""Figures: counters of the broker's objects in RabbitMQ's terms, with their sums and rates.

The rule: nothing is counted here. Counters are read, of any number of objects, and kept only for
objects that somebody looks at.

Read in this order: ``counters`` and ``presence``, ``totals``, ``samples`` and ``growth``,
``rates``; ``freshness`` says for how long a result is reused.
"""
