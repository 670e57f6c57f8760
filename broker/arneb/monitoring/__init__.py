"""Monitoring: what the broker sees of itself while it runs.

The rule: looking costs next to nothing, and changes nothing but what an alarm is there to stop.

``observed`` is what is looked at. ``alarms`` are declared of memory and disk, ``diagnosis`` says
why a queue grows, ``lateness`` and ``turn_watchdog`` watch the event loop, ``traces`` and
``pulsar_traces`` make spans of messages.
"""
