"""Logins: other places than the access catalogue that know who somebody is and what he may do.

The rule: each is a :class:`arneb_core.access.principals.Backend`; frontends do not know which one
it was. What cannot be found out is not allowed, and the log says why.
"""
