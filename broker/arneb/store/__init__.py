"""A data directory as this program opens it: to serve it, to check it, to list what it has.

The rule: what is on disk is :mod:`arneb_core.store`'s; here are the settings, and what frontends
keep in it.
"""
