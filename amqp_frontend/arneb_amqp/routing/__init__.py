"""Exchanges and bindings as data: the queues a message goes to. Pure."""
