"""Consuming on a channel: deliveries and what the client answers."""
