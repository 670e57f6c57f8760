"""Consumers: a pure machine for deliveries and acknowledgements, and the shell that runs it."""
