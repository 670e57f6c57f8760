"""What a connection does, as pure state: bytes and events in, bytes and effects out.

Nothing here does I/O, reads a clock or touches the core. :mod:`.connection` is the entry;
:mod:`.effects` is what it asks of the server and :mod:`.events` what the server reports.
"""
