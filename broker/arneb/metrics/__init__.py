"""Metrics: what the broker tells Prometheus, under its own names, RabbitMQ's and Pulsar's.

The rule: no counter is kept here. A page is made from what the core and the frontends count anyway,
when it is asked for, so nothing on a hot path pays for being observed, and two sources cannot
disagree.
"""
