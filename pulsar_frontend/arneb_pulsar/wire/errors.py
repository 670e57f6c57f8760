"""What can be wrong with bytes from a client.

* :class:`WireError`
    * :class:`FrameError` - impossible sizes; the rest of the stream cannot be read
    * :class:`CommandError` - a frame whose command cannot be parsed
    * :class:`PayloadError` - a payload that is not in the protocol's form
        * :class:`ChecksumMismatch` - its bytes were damaged on the way
"""


class WireError(ValueError):
    """Bytes that break the protocol; the text says what was expected and what was received."""


class FrameError(WireError):
    """A frame with impossible sizes."""


class CommandError(WireError):
    """A command that does not parse."""


class PayloadError(WireError):
    """Headers and payload of a message that cannot be parsed."""


class ChecksumMismatch(PayloadError):
    """The CRC32C in front of a payload is not that of its bytes."""
