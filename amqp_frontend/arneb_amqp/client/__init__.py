"""A client of AMQP 0-9-1: the broker's connections to other brokers.

The rule: :mod:`.session` is bytes in, events out, and no I/O; :mod:`.connection` has the socket.
"""
