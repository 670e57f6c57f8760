"""The Pulsar frontend: Apache Pulsar's binary protocol over the shared log.

``wire`` turns bytes into commands and back, ``session`` decides what a connection does, and
``server`` is the only part that touches sockets and the core. ``codec`` translates Pulsar
entries to and from the neutral message.
"""
