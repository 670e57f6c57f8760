"""Exchanges and bindings as data: which queues a message goes to. Pure."""
