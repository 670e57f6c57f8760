"""The engine's threads: they read what is not in memory, and pass results to the event loop.

The rule: a thread touches only the store; memory changes only in the event loop, in the calls that
a thread schedules there.
"""
