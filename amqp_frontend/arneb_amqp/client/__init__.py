"""A client of AMQP 0-9-1: what the broker needs to speak to other brokers.

The rule: :mod:`.session` is bytes in, events out, and no I/O; :mod:`.connection` has the socket.
"""
