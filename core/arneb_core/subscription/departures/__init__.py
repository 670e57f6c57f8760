"""Departures: entries that leave a subscription without a consumer's acknowledgement.

The rule: nothing leaves before its target has it, and departing entries are read no faster than
the target takes them.
"""
