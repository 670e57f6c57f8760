"""Connections to brokers: a pure machine, the shell that runs it, and the pool."""
