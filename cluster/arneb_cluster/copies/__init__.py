"""Copies of a shard's directory: one node gives it, another takes it, by the internal port."""
