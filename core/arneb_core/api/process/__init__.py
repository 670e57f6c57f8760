"""Inside a process: its tasks, turns, call-backs and locks, the clock, and what it is short of."""
