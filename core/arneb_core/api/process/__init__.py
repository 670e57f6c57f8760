"""Inside a process: its tasks, turns, callbacks and locks, the clock, and its resource alarms."""
