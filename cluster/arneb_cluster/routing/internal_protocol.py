"""The internal protocol: the exchange between two nodes before they pass a client's bytes. No I/O.

The rule: neither side trusts or reveals anything before the other has proved that it knows the
secret. Each proof covers two numbers drawn for this connection, so it cannot be replayed, and names
its side, so it cannot be reflected. The caller's proof also covers its request. Whatever is not
understood is refused with a sentence.

=========  =======  ==========================================================
who asks   HELLO    version, a number drawn for this, its name
who leads  PROOF    a number drawn for this, its name, its proof
who asks   REQUEST  its proof, the kind of the client, namespace, document
who leads  ACCEPTED or REFUSED with a sentence
=========  =======  ==========================================================

Then the client's bytes follow unchanged in both directions. Where TLS already proves both sides,
the secret may be left out, and proofs are over an empty one.
"""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final

VERSION: Final = b"ARNEB/1"

NONCE_BYTES: Final = 32

SECRET_BYTES_MIN: Final = 32
"""Bytes of a secret: a secret that can be guessed proves nothing."""

RECORD: Final = Struct(">IB")
"""The size and the kind of what follows."""
FIELD: Final = Struct(">I")

STRANGER_BYTES_MAX: Final = 1024
"""Bytes of a record from a side that has proved nothing."""

REQUEST_BYTES_MAX: Final = 64 * 1024
"""Bytes about a client: its properties and its secret, which came in a frame of 4 KiB, and a
certificate."""

NAME_BYTES_MAX: Final = 255
REFUSAL_BYTES_MAX: Final = 1024


class Kind(IntEnum):
    """The kind of a record."""

    HELLO = 1
    PROOF = 2
    REQUEST = 3
    ACCEPTED = 4
    REFUSED = 5


class ProtocolBroken(Exception):
    """The other side is not one of ours, or does not know the secret. The text says what was
    expected and what was received."""


class CallRefused(Exception):
    """The other node refuses to serve the client, and says why."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request to serve a client."""

    kind: str
    """The kind of the client, ``amqp`` and others."""
    namespace: str
    document: bytes
    """The client's document."""


@dataclass(frozen=True, slots=True)
class Secret:
    """The secret that the nodes of a cluster share; empty where TLS proves who they are."""

    value: bytes

    def __repr__(self) -> str:
        return f"<Secret of {len(self.value)} bytes>"

    def __post_init__(self) -> None:
        if 0 < len(self.value) < SECRET_BYTES_MIN:
            raise ValueError(
                f"expected a secret of at least {SECRET_BYTES_MIN} bytes, got {len(self.value)}"
            )

    def proof(self, side: bytes, *parts: bytes) -> bytes:
        """Return one side's proof over the exchange."""
        return hmac.digest(self.value, pack(side, VERSION, *parts), "sha256")


ASKS: Final = b"who asks"
LEADS: Final = b"who leads"


def pack(*fields: bytes) -> bytes:
    """Concatenate fields, each with its size."""
    return b"".join(FIELD.pack(len(each)) + each for each in fields)


def unpack(data: bytes, names: Sequence[str]) -> list[bytes]:
    """Return the fields of a record, which must be exactly these. Raises
    :class:`ProtocolBroken`."""
    found, at = [], 0
    for name in names:
        if at + FIELD.size > len(data):
            raise ProtocolBroken(f"expected the field {name}, got the end at byte {at}")
        (size,) = FIELD.unpack_from(data, at)
        at += FIELD.size
        if at + size > len(data):
            raise ProtocolBroken(f"expected {size} bytes of {name}, got {len(data) - at}")
        found.append(data[at : at + size])
        at += size
    if at != len(data):
        raise ProtocolBroken(f"expected the end after {names[-1]}, got {len(data) - at} bytes")
    return found


def record(kind: Kind, *fields: bytes) -> bytes:
    """Return a record as bytes on the wire."""
    body = pack(*fields)
    return RECORD.pack(len(body), kind) + body


def refusal(text: str) -> bytes:
    """Return a refusal with its reason."""
    return record(Kind.REFUSED, text.encode("utf-8", "replace")[:REFUSAL_BYTES_MAX])


class _Records:
    """Received records, taken one at a time, so that what follows the last one is kept
    unchanged."""

    def __init__(self) -> None:
        self.held = b""

    def take(self, expected: Kind, size_max: int) -> bytes | None:
        """Return the body of the next record, which must be of that kind; None until it is
        complete. Raises :class:`ProtocolBroken`, as soon as it is known, and
        :class:`CallRefused`."""
        if len(self.held) < RECORD.size:
            return None
        size, kind = RECORD.unpack_from(self.held)
        may_refuse = expected in (Kind.PROOF, Kind.ACCEPTED)
        if kind != expected and not (kind == Kind.REFUSED and may_refuse):
            raise ProtocolBroken(f"expected {expected.name}, got a record of kind {kind}")
        if size > size_max:
            raise ProtocolBroken(
                f"expected {expected.name} of at most {size_max} bytes, got {size}"
            )
        end = RECORD.size + size
        if len(self.held) < end:
            return None
        body, self.held = self.held[RECORD.size : end], self.held[end:]
        if kind == Kind.REFUSED:
            (text,) = unpack(body, ["the reason"])
            raise CallRefused(text.decode("utf-8", "replace"))
        return body


def _name(raw: bytes) -> str:
    if len(raw) > NAME_BYTES_MAX:
        raise ProtocolBroken(f"expected a name of at most {NAME_BYTES_MAX} bytes, got {len(raw)}")
    return _text(raw, "a name")


def _text(raw: bytes, what: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ProtocolBroken(f"expected {what} in UTF-8, got {raw[:40]!r}") from None


def _check_nonce(nonce: bytes) -> None:
    if len(nonce) != NONCE_BYTES:
        raise ProtocolBroken(f"expected a number of {NONCE_BYTES} bytes, got {len(nonce)}")


class Asking:
    """The side that brings a client."""

    def __init__(self, secret: Secret, name: str, nonce: bytes, request: Request) -> None:
        """``nonce`` was drawn for this connection alone."""
        self._secret = secret
        self._name = name.encode()[:NAME_BYTES_MAX]
        self._nonce = nonce
        self._request = request
        self._records = _Records()
        self._has_asked = False
        self.leader = ""
        """The name of the other node, once it has proved itself."""

    def __repr__(self) -> str:
        return f"<Asking {self._request.kind}, {'asked' if self._has_asked else 'not asked yet'}>"

    def hello(self) -> bytes:
        """Return the first record."""
        return record(Kind.HELLO, VERSION, self._nonce, self._name)

    def receive(self, data: bytes) -> bytes:
        """Take input; return the output. Raises :class:`ProtocolBroken` and
        :class:`CallRefused`."""
        self._records.held += data
        if self._has_asked:
            return b""
        body = self._records.take(Kind.PROOF, STRANGER_BYTES_MAX)
        if body is None:
            return b""
        nonce, name, proof = unpack(body, ["the number", "the name", "the proof"])
        _check_nonce(nonce)
        expected = self._secret.proof(LEADS, self._nonce, nonce, self._name, name)
        if not hmac.compare_digest(proof, expected):
            raise ProtocolBroken("expected a proof of the cluster's secret, got another one")
        self.leader = _name(name)
        self._has_asked = True
        asked = self._request
        fields = asked.kind.encode(), asked.namespace.encode(), asked.document
        mine = self._secret.proof(ASKS, self._nonce, nonce, self._name, name, *fields)
        return record(Kind.REQUEST, mine, *fields)

    def accepted(self) -> bytes | None:
        """Return the client's first bytes once it was accepted; None while that is not known."""
        if not self._has_asked:
            return None
        body = self._records.take(Kind.ACCEPTED, STRANGER_BYTES_MAX)
        if body is None:
            return None
        unpack(body, ["nothing"])
        rest, self._records.held = self._records.held, b""
        return rest


class Answering:
    """The side that is called."""

    def __init__(self, secret: Secret, name: str, nonce: bytes) -> None:
        """``nonce`` was drawn for this connection alone."""
        self._secret = secret
        self._name = name.encode()[:NAME_BYTES_MAX]
        self._nonce = nonce
        self._records = _Records()
        self._hello: tuple[bytes, bytes] | None = None
        self.node = ""
        """The name of the calling node, once it has proved itself."""
        self.request: Request | None = None
        """The request, once it is proved."""

    def __repr__(self) -> str:
        return f"<Answering {self.node or 'a stranger'}, {self.request}>"

    def receive(self, data: bytes) -> bytes:
        """Take input; return the output. Raises :class:`ProtocolBroken`."""
        records = self._records
        records.held += data
        answer = b""
        if self._hello is None:
            body = records.take(Kind.HELLO, STRANGER_BYTES_MAX)
            if body is None:
                return b""
            version, nonce, name = unpack(body, ["the version", "the number", "the name"])
            if version != VERSION:
                raise ProtocolBroken(f"expected {VERSION!r}, got {version[:40]!r}")
            _check_nonce(nonce)
            _name(name)
            self._hello = nonce, name
            proof = self._secret.proof(LEADS, nonce, self._nonce, name, self._name)
            answer = record(Kind.PROOF, self._nonce, self._name, proof)
        if self.request is None and (body := records.take(Kind.REQUEST, REQUEST_BYTES_MAX)):
            self.request = self._read(body, *self._hello)
        return answer

    def _read(self, body: bytes, nonce: bytes, name: bytes) -> Request:
        proof, *fields = unpack(body, ["the proof", "the kind", "the namespace", "the document"])
        expected = self._secret.proof(ASKS, nonce, self._nonce, name, self._name, *fields)
        if not hmac.compare_digest(proof, expected):
            raise ProtocolBroken("expected a proof of the cluster's secret, got another one")
        self.node = _name(name)
        kind, namespace, document = fields
        return Request(_text(kind, "a kind"), _text(namespace, "a namespace"), document)

    @property
    def rest(self) -> bytes:
        """The input after the request."""
        return self._records.held

    def accept(self) -> bytes:
        """Return the record that says that the client is served here, from the next byte on."""
        return record(Kind.ACCEPTED, b"")
