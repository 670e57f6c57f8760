"""End-to-end encryption, as the official clients do it.

The rule: a payload is encrypted with AES-256-GCM under a data key, and the data key with the RSA
key of each reader (OAEP, SHA-1); the broker sees neither in clear. A data key is used for four
hours at most, and nonces are never derived from anything that could repeat.

Payloads are compressed before they are encrypted, and large ones encrypted chunk by chunk.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import (
    load_pem_private_key,
    load_pem_public_key,
)
from cryptography.x509 import load_pem_x509_certificate

from arneb_pulsar.client.errors import ConfigurationError, CryptoError
from arneb_pulsar.wire.proto.pulsar_pb2 import EncryptionKeys, KeyValue, MessageMetadata

DATA_KEY_S: Final = 4 * 3600.0
"""How long a data key is used, as in Java's client."""

DATA_KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12

DATA_KEY_USES_MAX: Final = 1 << 30
"""Uses of one data key: random 96-bit nonces must not collide, and NIST SP 800-38D allows 2**32 of
them under one key."""

DATA_KEYS_REMEMBERED: Final = 1_024
"""Data keys cached by a consumer: those of a few hundred producers over some days. Unwrapping one
again costs 1 ms."""

PRIVATE_KEYS_REMEMBERED: Final = 64
"""Private keys cached by a consumer. Loading one again costs 60 ms: OpenSSL tests its primes."""

WRAPPING: Final = OAEP(mgf=MGF1(SHA1()), algorithm=SHA1(), label=None)
"""``RSA/NONE/OAEPWithSHA1AndMGF1Padding`` in Java, ``RSA_PKCS1_OAEP_PADDING`` in OpenSSL."""

CERTIFICATE: Final = b"BEGIN CERTIFICATE"


@dataclass(frozen=True, slots=True)
class EncryptionKey:
    """A key as PEM, and its owner's metadata, which is sent with messages."""

    pem: bytes
    metadata: Mapping[str, str] = field(default_factory=dict)


class KeyReader(Protocol):
    """Finds keys by name. May raise anything; the cause is kept."""

    def public_key(self, name: str, metadata: Mapping[str, str]) -> EncryptionKey: ...

    def private_key(self, name: str, metadata: Mapping[str, str]) -> EncryptionKey: ...


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """Keys in PEM files, by their names. Either side may be left out."""

    public: Mapping[str, str | Path] = field(default_factory=dict)
    private: Mapping[str, str | Path] = field(default_factory=dict)

    def public_key(self, name: str, metadata: Mapping[str, str]) -> EncryptionKey:
        return EncryptionKey(Path(self.public[name]).read_bytes())

    def private_key(self, name: str, metadata: Mapping[str, str]) -> EncryptionKey:
        return EncryptionKey(Path(self.private[name]).read_bytes())


class Encryptor:
    """Encrypts the messages of one producer for all holders of one of the private keys."""

    def __init__(
        self,
        keys: Sequence[str],
        reader: KeyReader,
        *,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        if not keys:
            raise ConfigurationError("expected the name of a key to encrypt with, got none")
        self._names = tuple(dict.fromkeys(keys))
        self._reader = reader
        self._random_bytes = random_bytes
        self._cipher: AESGCM | None = None
        self._wrapped: list[EncryptionKeys] = []
        self._since: float | None = None
        self._uses = 0

    def __repr__(self) -> str:
        return f"<Encryptor for {', '.join(self._names)}, data key used {self._uses} times>"

    def rotate(self, now: float) -> None:
        """Switch to a new data key if this one has been used for :data:`DATA_KEY_S`; to be called
        now and then. The public keys are then read again, so that readers can be added and removed
        by changing them."""
        if self._since is None:
            self._since = now
        elif now - self._since >= DATA_KEY_S:
            self._since, self._cipher = now, None

    def encrypt(self, metadata: MessageMetadata, payload: bytes) -> bytes:
        """Return ``payload`` encrypted, and record in ``metadata`` how.

        Raises :class:`CryptoError`; ``metadata`` is then unchanged, and the next call tries again.
        """
        cipher = self._cipher
        if cipher is None or self._uses >= DATA_KEY_USES_MAX:
            cipher = self._new_data_key()
        self._uses += 1
        nonce = self._random_bytes(NONCE_BYTES)
        metadata.encryption_keys.extend(self._wrapped)
        metadata.encryption_param = nonce
        return cipher.encrypt(nonce, payload, None)

    def _new_data_key(self) -> AESGCM:
        data_key = self._random_bytes(DATA_KEY_BYTES)
        self._wrapped = [self._wrap(name, data_key) for name in self._names]
        self._cipher = AESGCM(data_key)
        self._uses = 0
        return self._cipher

    def _wrap(self, name: str, data_key: bytes) -> EncryptionKeys:
        try:
            found = self._reader.public_key(name, {})
        except Exception as error:
            raise CryptoError(
                f"expected the public key {name!r}: {type(error).__name__}: {error}"
            ) from error
        value = _public_key(name, found.pem).encrypt(data_key, WRAPPING)
        pairs = [KeyValue(key=key, value=value) for key, value in found.metadata.items()]
        return EncryptionKeys(key=name, value=value, metadata=pairs)


class Decryptor:
    """Decrypts the messages of one consumer. Caches the data keys it has seen."""

    def __init__(self, reader: KeyReader) -> None:
        self._reader = reader
        self._ciphers: dict[bytes, AESGCM] = {}
        self._private_key = lru_cache(maxsize=PRIVATE_KEYS_REMEMBERED)(_private_key)

    def __repr__(self) -> str:
        return f"<Decryptor with {len(self._ciphers)} data keys>"

    def decrypt(self, metadata: MessageMetadata, payload: bytes) -> bytes:
        """Return ``payload`` decrypted, or unchanged if it was not encrypted.

        Raises :class:`CryptoError` if none of its keys is available, or the payload was changed.
        """
        if not metadata.encryption_keys:
            return payload
        causes: list[str] = []
        for wrapped in metadata.encryption_keys:
            try:
                cipher = self._ciphers.get(wrapped.value) or self._unwrap(wrapped)
                return cipher.decrypt(metadata.encryption_param, payload, None)
            except InvalidTag:
                causes.append(f"{wrapped.key}: the payload is damaged, or its key is another")
            except CryptoError as error:
                causes.append(str(error))
            except ValueError as error:
                causes.append(f"{wrapped.key}: {error}")
        raise CryptoError(f"expected a payload that can be decrypted: {'; '.join(causes)}")

    def _unwrap(self, wrapped: EncryptionKeys) -> AESGCM:
        name = wrapped.key
        metadata = {pair.key: pair.value for pair in wrapped.metadata}
        try:
            found = self._reader.private_key(name, metadata)
        except Exception as error:
            raise CryptoError(
                f"expected the private key {name!r}: {type(error).__name__}: {error}"
            ) from error
        try:
            cipher = AESGCM(self._private_key(name, found.pem).decrypt(wrapped.value, WRAPPING))
        except ValueError as error:
            raise CryptoError(f"expected a data key wrapped for {name!r}: {error}") from error
        if len(self._ciphers) >= DATA_KEYS_REMEMBERED:
            del self._ciphers[next(iter(self._ciphers))]
        self._ciphers[wrapped.value] = cipher
        return cipher


def _public_key(name: str, pem: bytes) -> RSAPublicKey:
    try:
        if CERTIFICATE in pem:
            key: object = load_pem_x509_certificate(pem).public_key()
        else:
            key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise CryptoError(f"expected the public key {name!r} as PEM: {error}") from error
    if not isinstance(key, RSAPublicKey):
        raise CryptoError(f"expected an RSA key for {name!r}, got {type(key).__name__}")
    return key


def _private_key(name: str, pem: bytes) -> RSAPrivateKey:
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CryptoError(f"expected the private key {name!r} as PEM: {error}") from error
    if not isinstance(key, RSAPrivateKey):
        raise CryptoError(f"expected an RSA key for {name!r}, got {type(key).__name__}")
    return key
