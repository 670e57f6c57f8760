"""Clients over HTTP: connections, their channels and consumers.

The rule: a user without a monitoring tag sees only its own.
"""
