"""Subscriptions and their consumers as frontends see them, over the machines that decide.

The rule: what happens to an entry is decided in :mod:`arneb_core.subscription`; here the decisions
are carried out, and callers wait.
"""
