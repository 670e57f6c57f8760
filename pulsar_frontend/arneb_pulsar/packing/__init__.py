"""Runs of the core, as bytes of the protocol: positions as message ids, entries as frames."""
