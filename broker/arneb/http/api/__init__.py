"""Arneb's own paths of the HTTP port, and Pulsar's admin API on its port.

The rule: a figure has one name, that of the statistics' field, here and everywhere else.
"""
