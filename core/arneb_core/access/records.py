"""Records: what the access catalogue holds, as values, and as rows of the store.

The rule: a row read back equals the one written. Each says of which version it is, and one of a
later version, or that says more than this one knows, is refused: to overlook something would be to
give somebody rights, or to take them. A value is never changed, what is inside it included.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, TypeVar
from urllib.parse import quote

from arneb_core.access.passwords import NO_PASSWORD, HashingAlgorithm, PasswordHash

PREFIX: Final = "access/"
"""What the keys of all rows begin with."""

VERSION: Final = 1
"""Of the rows. Raised whenever an older broker could misread what this one writes."""

Key = tuple[str, ...]
Limits = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Record:
    """One row. Its first fields, :attr:`KEY_FIELDS` of them, name it."""

    TABLE: ClassVar[str]
    KEY_FIELDS: ClassVar[int] = 1

    @property
    def key(self) -> Key:
        """What names it in its table."""
        return tuple(getattr(self, each.name) for each in fields(self)[: self.KEY_FIELDS])


@dataclass(frozen=True, slots=True)
class Vhost(Record):
    """A virtual host, and the namespace that is its own."""

    TABLE: ClassVar[str] = "vhost"

    name: str
    namespace: str
    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str = ""
    """Empty: none was set."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What else was said of it; kept and shown, and not looked at."""
    limits: Limits = field(default_factory=dict)
    """By their names, as in RabbitMQ; a negative one is none."""
    leaving: bool = False
    """It is being removed: nobody gets in, and the next start goes on with it."""


@dataclass(frozen=True, slots=True)
class User(Record):
    """Somebody who may come in."""

    TABLE: ClassVar[str] = "user"

    name: str
    password: PasswordHash = NO_PASSWORD
    tags: tuple[str, ...] = ()
    limits: Limits = field(default_factory=dict)
    """As of :class:`Vhost`."""


@dataclass(frozen=True, slots=True)
class Permission(Record):
    """What a user may do in a vhost: three patterns that are searched in the names of things. A
    user without one has no access to the vhost at all."""

    TABLE: ClassVar[str] = "permission"
    KEY_FIELDS: ClassVar[int] = 2

    user: str
    vhost: str
    configure: str
    write: str
    read: str


@dataclass(frozen=True, slots=True)
class TopicPermission(Record):
    """Which routing keys a user may use with a topic exchange; without one, all."""

    TABLE: ClassVar[str] = "topic-permission"
    KEY_FIELDS: ClassVar[int] = 3

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


@dataclass(frozen=True, slots=True)
class Parameter(Record):
    """Something that an operator set for a component, in a vhost."""

    TABLE: ClassVar[str] = "parameter"
    KEY_FIELDS: ClassVar[int] = 3

    vhost: str
    component: str
    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class GlobalParameter(Record):
    """The same for the whole node."""

    TABLE: ClassVar[str] = "global-parameter"

    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Policy(Record):
    """What holds for the queues and exchanges whose names match."""

    TABLE: ClassVar[str] = "policy"
    KEY_FIELDS: ClassVar[int] = 2

    vhost: str
    name: str
    pattern: str
    definition: Mapping[str, Any]
    apply_to: str = "all"
    priority: int = 0


@dataclass(frozen=True, slots=True)
class OperatorPolicy(Policy):
    """A policy that bounds what others set."""

    TABLE: ClassVar[str] = "operator-policy"


@dataclass(frozen=True, slots=True)
class Seeded(Record):
    """The catalogue has been begun: from now on the store says who there is, and no setting."""

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
    """Where a record is kept."""
    return f"{PREFIX}{kind.TABLE}/{'/'.join(quote(part, safe='') for part in key)}"


def encode(record: Record) -> bytes:
    """The record as kept."""
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
    elif kind == Mapping[str, Any]:
        fits = isinstance(value, dict)
    else:
        fits = type(value) is kind  # a hash is none here
    if not fits:
        raise ValueError(f"expected {kind} in {row!r}, got {value!r}")
    return value
