"""Records: the contents of the access catalogue, as values and as rows of the store.

The rule: a row read back equals the one written. Each row names its version; one of a later
version, or with unknown fields, is refused, since overlooking something could give or take rights.
Values are never changed, nor is anything inside them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, TypeVar
from urllib.parse import quote

from arneb_core.access.passwords import NO_PASSWORD, HashingAlgorithm, PasswordHash

PREFIX: Final = "access/"
"""The beginning of the keys of all rows."""

VERSION: Final = 1
"""The version of the rows, raised whenever an older broker could misread new ones."""

Key = tuple[str, ...]
Limits = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Record:
    """One row. Its first :attr:`KEY_FIELDS` fields are its key."""

    TABLE: ClassVar[str]
    KEY_FIELDS: ClassVar[int] = 1

    @property
    def key(self) -> Key:
        """Its key in its table."""
        return tuple(getattr(self, each.name) for each in fields(self)[: self.KEY_FIELDS])


@dataclass(frozen=True, slots=True)
class Vhost(Record):
    """A virtual host and its own namespace."""

    TABLE: ClassVar[str] = "vhost"

    name: str
    namespace: str
    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str = ""
    """Empty: not set."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Other metadata, stored and shown but not used."""
    limits: Limits = field(default_factory=dict)
    """By name, as in RabbitMQ; negative: no limit."""
    leaving: bool = False
    """It is being removed: nobody gets in, and the next start continues the removal."""


@dataclass(frozen=True, slots=True)
class User(Record):
    """A user who may log in."""

    TABLE: ClassVar[str] = "user"

    name: str
    password: PasswordHash = NO_PASSWORD
    tags: tuple[str, ...] = ()
    limits: Limits = field(default_factory=dict)
    """As in :class:`Vhost`."""


@dataclass(frozen=True, slots=True)
class Permission(Record):
    """What a user may do in a vhost: three patterns that are searched in names. A user without such
    a record has no access to the vhost."""

    TABLE: ClassVar[str] = "permission"
    KEY_FIELDS: ClassVar[int] = 2

    user: str
    vhost: str
    configure: str
    write: str
    read: str


@dataclass(frozen=True, slots=True)
class TopicPermission(Record):
    """Which routing keys a user may use with a topic exchange; without a record, all of them."""

    TABLE: ClassVar[str] = "topic-permission"
    KEY_FIELDS: ClassVar[int] = 3

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


@dataclass(frozen=True, slots=True)
class Parameter(Record):
    """A value that an operator set for a component in a vhost."""

    TABLE: ClassVar[str] = "parameter"
    KEY_FIELDS: ClassVar[int] = 3

    vhost: str
    component: str
    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class GlobalParameter(Record):
    """A value that an operator set for the whole node."""

    TABLE: ClassVar[str] = "global-parameter"

    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Policy(Record):
    """Settings for the queues and exchanges whose names match."""

    TABLE: ClassVar[str] = "policy"
    KEY_FIELDS: ClassVar[int] = 2

    vhost: str
    name: str
    pattern: str
    definition: Mapping[str, Any]
    apply_to: str = "all"
    priority: float = 0


@dataclass(frozen=True, slots=True)
class OperatorPolicy(Policy):
    """A policy that bounds what others set."""

    TABLE: ClassVar[str] = "operator-policy"


@dataclass(frozen=True, slots=True)
class Seeded(Record):
    """The catalogue has been seeded: from now on the store decides, and not the settings."""

    TABLE: ClassVar[str] = "seeded"

    name: str = "catalogue"


KINDS: Final[tuple[type[Record], ...]] = (
    Vhost,
    User,
    Permission,
    TopicPermission,
    Parameter,
    GlobalParameter,
    Policy,
    OperatorPolicy,
    Seeded,
)
_BY_TABLE: Final = {kind.TABLE: kind for kind in KINDS}

AnyRecord = TypeVar("AnyRecord", bound=Record)


def row_key(kind: type[Record], key: Key) -> str:
    """Return the key of a record's row."""
    return f"{PREFIX}{kind.TABLE}/{'/'.join(quote(part, safe='') for part in key)}"


def encode(record: Record) -> bytes:
    """Return the value of a record's row."""
    document: dict[str, Any] = {"v": VERSION}
    for each in fields(record):
        value = getattr(record, each.name)
        if isinstance(value, PasswordHash):
            value = [value.algorithm.value, value.text]
        document[each.name] = value
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def decode(row: str, value: bytes) -> Record:
    """The inverse of :func:`encode`, for the row of that key. Raises :class:`ValueError`."""
    kind = _BY_TABLE.get(row.removeprefix(PREFIX).partition("/")[0])
    if kind is None:
        raise ValueError(f"expected a row of the access catalogue, got {row!r}")
    document = json.loads(value)  # its errors are ValueErrors
    if not isinstance(document, dict) or document.pop("v", None) != VERSION:
        raise ValueError(f"expected version {VERSION} of {row!r}, got {value[:40]!r}")
    known = {each.name: each for each in fields(kind)}
    if document.keys() != known.keys():
        raise ValueError(f"expected {', '.join(known)} in {row!r}, got {', '.join(document)}")
    record = kind(**{name: _read(row, known[name].type, document[name]) for name in known})
    if row_key(kind, record.key) != row:
        raise ValueError(f"expected {row!r}, got the record of {row_key(kind, record.key)!r}")
    return record


def _read(row: str, kind: Any, value: Any) -> Any:
    if kind is PasswordHash:
        match value:
            case [str(algorithm), str(text)]:
                return PasswordHash(text, HashingAlgorithm(algorithm))
    if kind == tuple[str, ...]:
        fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
        value = tuple(value) if fits else value
    elif kind is Any:
        fits = True
    elif kind == Limits:
        fits = isinstance(value, dict) and all(type(each) is int for each in value.values())
    elif kind is float:
        fits = type(value) in (int, float)
    elif kind == Mapping[str, Any]:
        fits = isinstance(value, dict)
    else:
        fits = type(value) is kind  # a password hash does not come here
    if not fits:
        raise ValueError(f"expected {kind} in {row!r}, got {value!r}")
    return value
