"""End-to-end encryption, with keys made here."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.client.codec.encryption import (
    DATA_KEY_S,
    DATA_KEYS_REMEMBERED,
    Decryptor,
    EncryptionKey,
    Encryptor,
    KeyFiles,
)
from arneb_pulsar.client.errors import ConfigurationError, CryptoError
from arneb_pulsar.wire.proto.pulsar_pb2 import MessageMetadata


@cache
def pair(name: str) -> tuple[bytes, bytes]:
    """A public and a private key of that name."""
    key = rsa.generate_private_key(65537, 2048)
    return pems(key)


def pems(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> tuple[bytes, bytes]:
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    return public, private


class Keys:
    """A reader that knows some names, and counts how often it is asked."""

    def __init__(self, *names: str, metadata: Mapping[str, str] | None = None) -> None:
        self.names = names
        self.metadata = metadata or {}
        self.asked = 0
        self.shown: list[dict[str, str]] = []

    def public_key(self, name: str, metadata: Mapping[str, str]) -> EncryptionKey:
        return EncryptionKey(self._find(name, metadata)[0], self.metadata)

    def private_key(self, name: str, metadata: Mapping[str, str]) -> EncryptionKey:
        return EncryptionKey(self._find(name, metadata)[1])

    def _find(self, name: str, metadata: Mapping[str, str]) -> tuple[bytes, bytes]:
        self.asked += 1
        self.shown.append(dict(metadata))
        if name not in self.names:
            raise LookupError(f"no key {name}")
        return pair(name)


def seal(encryptor: Encryptor, payload: bytes) -> tuple[MessageMetadata, bytes]:
    metadata = MessageMetadata()
    return metadata, encryptor.encrypt(metadata, payload)


@cache
def encryptor() -> Encryptor:
    return Encryptor(["a", "b"], Keys("a", "b"))


@cache
def decryptor(name: str) -> Decryptor:
    return Decryptor(Keys(name))


@given(st.binary(), st.sampled_from(["a", "b"]))
def test_any_one_of_the_keys_decrypts_it(payload: bytes, mine: str) -> None:
    metadata, sealed = seal(encryptor(), payload)
    assert len(sealed) == len(payload) + 16
    assert [each.key for each in metadata.encryption_keys] == ["a", "b"]
    assert decryptor(mine).decrypt(metadata, sealed) == payload


@given(st.data())
def test_what_was_changed_on_the_way_is_refused(data: st.DataObject) -> None:
    metadata, sealed = seal(encryptor(), b"payload")
    changed = bytearray(sealed)
    changed[data.draw(st.integers(0, len(sealed) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CryptoError, match="damaged"):
        decryptor("a").decrypt(metadata, bytes(changed))


def test_a_data_key_is_read_once_and_used_for_four_hours() -> None:
    public, private = Keys("a"), Keys("a")
    sealing, opening = Encryptor(["a"], public), Decryptor(private)
    wrapped = set()
    for now in (1_000.0, 2_000.0, 1_000.0 + DATA_KEY_S - 1, 1_000.0 + DATA_KEY_S):
        sealing.rotate(now)
        metadata, sealed = seal(sealing, b"payload")
        wrapped.add(metadata.encryption_keys[0].value)
        assert opening.decrypt(metadata, sealed) == b"payload"
    assert DATA_KEY_S == 4 * 3600
    assert len(wrapped) == public.asked == private.asked == 2


def test_no_nonce_is_used_twice() -> None:
    nonces = {seal(encryptor(), b"")[0].encryption_param for _ in range(1_000)}
    assert len(nonces) == 1_000
    assert {len(each) for each in nonces} == {12}


def test_data_keys_are_remembered_up_to_a_bound() -> None:
    full = Decryptor(Keys("a"))
    full._ciphers = dict.fromkeys(map(str.encode, map(str, range(DATA_KEYS_REMEMBERED))))  # type: ignore[assignment]
    metadata, sealed = seal(Encryptor(["a"], Keys("a")), b"payload")
    full.decrypt(metadata, sealed)
    assert repr(full) == f"<Decryptor with {DATA_KEYS_REMEMBERED} data keys>"


def test_what_an_owner_says_about_a_key_travels_to_the_reader() -> None:
    metadata, sealed = seal(Encryptor(["a"], Keys("a", metadata={"version": "3"})), b"payload")
    reader = Keys("a")
    Decryptor(reader).decrypt(metadata, sealed)
    assert reader.shown == [{"version": "3"}]


def test_what_is_not_encrypted_is_read_without_keys() -> None:
    assert Decryptor(Keys()).decrypt(MessageMetadata(), b"payload") == b"payload"


def test_without_a_key_the_error_says_which_was_wanted() -> None:
    metadata, sealed = seal(Encryptor(["a", "b"], Keys("a", "b")), b"payload")
    with pytest.raises(CryptoError, match=r"private key 'a'.*no key a.*private key 'b'"):
        Decryptor(Keys()).decrypt(metadata, sealed)
    with pytest.raises(CryptoError, match="public key 'c'"):
        seal(Encryptor(["c"], Keys("a")), b"payload")


def test_a_failed_encryption_leaves_the_metadata_alone() -> None:
    metadata = MessageMetadata()
    with pytest.raises(CryptoError):
        Encryptor(["a", "c"], Keys("a")).encrypt(metadata, b"payload")
    assert metadata == MessageMetadata()


def test_another_key_of_the_same_name_is_no_key() -> None:
    metadata, sealed = seal(Encryptor(["a"], Keys("a")), b"payload")
    metadata.encryption_keys[0].key = "b"
    with pytest.raises(CryptoError, match="wrapped for 'b'"):
        Decryptor(Keys("b")).decrypt(metadata, sealed)


@pytest.mark.parametrize("pem", [b"", b"no key", pems(ec.generate_private_key(ec.SECP256R1()))[0]])
def test_keys_of_another_kind_are_refused(pem: bytes) -> None:
    class Reader(Keys):
        def public_key(self, name: str, metadata: Mapping[str, str]) -> EncryptionKey:
            return EncryptionKey(pem)

    with pytest.raises(CryptoError, match="expected"):
        seal(Encryptor(["a"], Reader()), b"payload")


def test_keys_may_be_in_files(tmp_path: Path) -> None:
    public, private = pair("a")
    (tmp_path / "public.pem").write_bytes(public)
    (tmp_path / "private.pem").write_bytes(private)
    metadata, sealed = seal(Encryptor(["a"], KeyFiles({"a": tmp_path / "public.pem"})), b"payload")
    files = KeyFiles(private={"a": str(tmp_path / "private.pem")})
    assert Decryptor(files).decrypt(metadata, sealed) == b"payload"
    with pytest.raises(CryptoError, match="public key 'a'"):
        seal(Encryptor(["a"], files), b"payload")


def test_encryption_without_a_key_means_nothing() -> None:
    with pytest.raises(ConfigurationError, match="name of a key"):
        Encryptor([], Keys())
