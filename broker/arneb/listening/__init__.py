"""Listening: the broker's ports, and how connections are accepted.

The rule: every port is bound before anything else is touched, and no new connection holds up the
existing ones.

Read in this order: ``listeners`` (bound sockets), ``accepting`` (as long as there are descriptors),
``handshakes`` and ``certificates`` (TLS), ``access`` (who may use each port, in words).
"""
