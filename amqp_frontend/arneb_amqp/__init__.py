"""AMQP 0-9-1 for Arneb: wire, routing, session, server."""
