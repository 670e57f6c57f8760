"""Dispatching: the turns in which ready entries are handed out to consumers.

The rule: which consumer gets what, :mod:`arneb_core.dispatch` says; here is found what it may be
asked about.
"""
