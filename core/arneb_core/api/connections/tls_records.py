"""TLS records: the data of a TLS session after its handshake.

The rule: bytes in, bytes out, no waiting. Everything that has come is decrypted in one go, however
many records it is: clients write a record per message, and passing them on one at a time would turn
hundreds of messages into as many reads, runs and commits.
"""

import ssl
from contextlib import suppress
from typing import Final

RECORD_BYTES_MAX: Final = 16 * 1024
"""The most that one record holds (RFC 8446, 5.1), so that no record is read in two pieces."""


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
        """The peer has ended the session, or sends something that is not TLS."""

    def __repr__(self) -> str:
        return f"<TlsRecords {self._tls.version()}, {'ended' if self.ended else 'open'}>"

    @property
    def cipher(self) -> tuple[str, str]:
        """The suite by OpenSSL's name, and the version of TLS."""
        suite, version, _ = self._tls.cipher() or ("", "", 0)
        return suite, version

    @property
    def certificate(self) -> bytes | None:
        """The peer's verified certificate in DER, if there is one."""
        return self._tls.getpeercert(binary_form=True)

    def opened(self, data: bytes) -> bytes:
        """Decrypt ``data`` and what came before it; b"" for what came with the handshake. A reply
        that TLS itself has to send waits in :meth:`answer`."""
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
        except ssl.SSLError:  # what was decrypted before it counts
            self.ended = True
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def answer(self) -> bytes:
        """Return what TLS itself has to send: nearly always nothing."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def sealed(self, data: bytes) -> bytes:
        """Return ``data`` as records. Raises :class:`ssl.SSLError` when the session is broken."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]
        return self._outgoing.read()

    def farewell(self) -> bytes:
        """Return the closing record; nothing if it cannot be sent any more."""
        with suppress(ssl.SSLError):  # the peer has not closed yet, and is not waited for
            self._tls.unwrap()
        return self._outgoing.read()
