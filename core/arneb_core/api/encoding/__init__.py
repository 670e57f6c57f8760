"""Bytes and text that everybody reads alike: a checksum, the hash of keys, JSON from outside."""
