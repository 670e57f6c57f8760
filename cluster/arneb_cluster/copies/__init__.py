"""Copies of a shard's directory, which one node fetches from another through the internal port."""
