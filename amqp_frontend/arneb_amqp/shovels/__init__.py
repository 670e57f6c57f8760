"""Shovels: move messages from a queue or an exchange to another one, here or in other brokers."""
