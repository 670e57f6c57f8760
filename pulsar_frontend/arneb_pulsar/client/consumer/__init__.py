"""Consumers: a pure machine for what comes and what is acknowledged, and the shell around it."""
