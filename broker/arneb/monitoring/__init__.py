"""Monitoring: what the broker measures of itself while it runs.

The rule: measuring costs next to nothing, and changes nothing except what an alarm blocks.

``observed`` is the measured core. ``alarms`` watch memory and disk, ``diagnosis`` says
why a queue grows, ``lateness`` and ``turn_watchdog`` watch the event loop, ``traces`` and
``pulsar_traces`` make spans of messages.
"""
