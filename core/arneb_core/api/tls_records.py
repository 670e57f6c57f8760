"""TLS records: what is said inside TLS, once hands were shaken.

The rule: bytes in, bytes out, and no waiting. All that has come is opened in one go, however many
records it is: clients write a record for every message, and to hand on one at a time would make
hundreds of messages as many reads, runs and commits.
"""

import ssl
from contextlib import suppress
from typing import Final

RECORD_BYTES_MAX: Final = 16 * 1024
"""What one record holds at most (RFC 8446, 5.1), so that no piece is cut in two."""


class TlsRecords:
    """One TLS session after its handshake, over a pair of buffers in memory."""

    __slots__ = ("_incoming", "_outgoing", "_tls", "ended")

    def __init__(
        self, tls: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO
    ) -> None:
        self._tls = tls
        self._incoming = incoming
        self._outgoing = outgoing
        self.ended = False
        """The peer says no more, or what it says is no TLS."""

    def __repr__(self) -> str:
        return f"<TlsRecords {self._tls.version()}, {'ended' if self.ended else 'open'}>"

    @property
    def cipher(self) -> tuple[str, str]:
        """The suite by OpenSSL's name, and the version of TLS."""
        suite, version, _ = self._tls.cipher() or ("", "", 0)
        return suite, version

    @property
    def certificate(self) -> bytes | None:
        """The peer's that was verified, in DER, if there is one."""
        return self._tls.getpeercert(binary_form=True)

    def opened(self, data: bytes) -> bytes:
        """What ``data``, and what came before it, says; with b"" what came with the handshake. What
        is to be said to it, if anything is, waits in :meth:`answer`."""
        if data:
            self._incoming.write(data)
        pieces: list[bytes] = []
        read, take = self._tls.read, pieces.append
        try:
            while piece := read(RECORD_BYTES_MAX):
                take(piece)
            self.ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:  # what came before it counts
            self.ended = True
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def answer(self) -> bytes:
        """What TLS itself has to say: nothing, nearly always."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def sealed(self, data: bytes) -> bytes:
        """``data`` as records. Raises :class:`ssl.SSLError` when the session is broken."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]
        return self._outgoing.read()

    def farewell(self) -> bytes:
        """That no more will be said. Nothing when it cannot be said any more."""
        with suppress(ssl.SSLError):  # the peer has not said so yet, and is not waited for
            self._tls.unwrap()
        return self._outgoing.read()
