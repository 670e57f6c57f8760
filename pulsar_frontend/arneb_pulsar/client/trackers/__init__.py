"""Trackers: the state that a consumer or producer keeps between events, one kind in each module.

The rule: time comes in as ``now`` and results go out as values; a tracker knows neither sockets nor
tasks, and serves one consumer or producer of one topic.
"""
