"""Checks: histories in, named anomalies out.

The rule: pure functions over sorted events, which keep no more than what one message or one
consumer needs; so a history of a thousand lines and one of a billion are held to the same promises.
"""
