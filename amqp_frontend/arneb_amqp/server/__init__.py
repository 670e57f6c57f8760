"""The AMQP server: trio tasks that carry out what sessions decide."""

from arneb_amqp.server.listener import serve_amqp

__all__ = ["serve_amqp"]
