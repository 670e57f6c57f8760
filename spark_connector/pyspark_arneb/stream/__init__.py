"""The log as an unbounded table: its micro-batches, and how they are acknowledged."""
