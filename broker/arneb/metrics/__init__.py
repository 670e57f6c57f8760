"""Metrics: the broker's pages for Prometheus, with its own names, RabbitMQ's and Pulsar's.

The rule: no counter is kept here. A page is made on request from what the core and the frontends
count anyway, so that no hot path pays for being observed, and two sources cannot disagree.
"""
