"""Dispatching: the turns in which ready entries are delivered to consumers.

The rule: :mod:`arneb_core.dispatch` decides which consumer gets what; this package finds the
entries that it decides about.
"""
