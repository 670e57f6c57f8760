"""AMQP 0-9-1 on the wire: bytes in, items out; methods in, bytes out. No I/O, no session."""
