"""The engine's threads: where what is not in memory is read, and how results reach the event loop.

The rule: a thread touches only the store; memory changes in the event loop, in calls that a thread
has made there.
"""
