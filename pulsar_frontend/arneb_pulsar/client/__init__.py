"""A Pulsar client for trio and asyncio; see docs/internals/client.md.

It shares ``wire``, ``names`` and ``patterns`` with the broker, and imports nothing else of it.
"""
