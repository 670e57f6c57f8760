"""Run-time settings over HTTP: parameters, policies, limits and shovels.

The rule: operator policies and vhost limits are parameters too, as in RabbitMQ, and each is kept in
one place.
"""
