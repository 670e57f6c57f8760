"""Sockets: the listeners, one connection per client, and the effects of its session.

The rule: bytes are read and written only here; what all connections share is in
:mod:`arneb_pulsar.services`.
"""

from arneb_pulsar.server.listener import PulsarServer

__all__ = ["PulsarServer"]
