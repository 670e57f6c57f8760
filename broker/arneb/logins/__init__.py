"""Logins: authentication and authorization by backends other than the access catalogue.

The rule: each is a :class:`arneb_core.access.principals.Backend`; frontends do not know which one
answered. What a backend cannot find out is denied, and the log says why.
"""
