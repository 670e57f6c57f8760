"""Scheduling: when the engine does its work: at once after a change, or from time to time.

The rule: work is only found and ordered here; the committer, the topics and the subscriptions do
it.
"""
