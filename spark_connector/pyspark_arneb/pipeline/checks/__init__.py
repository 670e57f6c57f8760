"""Checks: find named anomalies in histories.

The rule: pure functions over sorted events, which keep only what one message or one consumer needs;
so a history of a billion lines is checked like one of a thousand.
"""
