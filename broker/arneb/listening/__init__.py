"""Listening: the ports of the broker, and how connections come in by them.

The rule: every port is bound before anything else is touched, and no client that comes holds up
those who are here.

Read in this order: ``listeners`` (bound sockets), ``accepting`` (as long as there are descriptors),
``handshakes`` and ``certificates`` (TLS), ``access`` (who may come in, in words).
"""
