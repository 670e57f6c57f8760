"""The only part of the Pulsar door that touches sockets and the core."""

from arneb_pulsar.server.serving import serve_pulsar

__all__ = ["serve_pulsar"]
