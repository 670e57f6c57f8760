"""The log as an unbounded table: its micro-batches, and what they acknowledge."""
