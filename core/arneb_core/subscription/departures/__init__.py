"""Departures: entries that leave a subscription without a consumer's acknowledgement.

The rule: nothing leaves before its target has it; and what leaves is read no faster than the target
takes it.
"""
