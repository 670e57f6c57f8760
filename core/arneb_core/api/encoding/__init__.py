"""Encodings that several layers share: a checksum, the hash of keys, JSON from outside."""
