"""Opening a data directory: to serve it, to check it, or to list its topics.

The rule: the format on disk belongs to :mod:`arneb_core.store`; this package adds the settings, and
the rows that frontends store.
"""
