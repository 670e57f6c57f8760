"""Copies of a shard's directory: one node gives a copy, another takes it, through the internal
port."""
