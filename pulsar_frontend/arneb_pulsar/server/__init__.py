"""Sockets: the listeners, one connection a client, and what its session asks of it.

The rule: only here are bytes read and written; what is shared by all connections is in
:mod:`arneb_pulsar.services`.
"""

from arneb_pulsar.server.listener import PulsarServer

__all__ = ["PulsarServer"]
