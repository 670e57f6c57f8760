"""Figures: counters of the broker's objects in RabbitMQ's words, sums and rates of them.

The rule: what is counted is counted elsewhere; here it is read, for as many objects as there are,
and kept only where somebody looks.

Read in this order: ``counters`` and ``presence``, ``totals``, ``samples`` and ``growth``,
``rates``; ``freshness`` says for how long a result is reused.
"""
