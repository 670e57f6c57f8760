"""Clients over HTTP: connections, their channels and consumers.

The rule: who does not monitor sees what is its own.
"""
