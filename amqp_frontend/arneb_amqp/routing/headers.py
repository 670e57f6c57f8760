"""The headers exchange: a binding's arguments are compared with a message's headers.

``x-match`` says how many must match: ``all`` (the default) or ``any``, both ignoring names that
begin with ``x-``; ``all-with-x`` and ``any-with-x`` include those. A void argument only requires
the header to be there. Types do not matter, values do: RabbitMQ compares Erlang terms, in which a
``short`` 5 equals a ``long`` 5 and a ``double`` 5.0.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from arneb_amqp.errors import precondition_failed
from arneb_amqp.routing.exchange import Binding, Exchange, Target
from arneb_amqp.routing.exchange_type import Headers
from arneb_amqp.wire.erlang import render_value
from arneb_amqp.wire.tables import Field, FieldType, encode_table

X_MATCH: Final = "x-match"
IGNORED_PREFIX: Final = "x-"

_HOW_MANY: Final = (b"all", b"any", b"all-with-x", b"any-with-x")

COMPARISONS_PER_PAUSE: Final = 256
"""Headers compared between two pauses while matching."""

_Wanted: TypeAlias = tuple[tuple[str, Field], ...]
_Key: TypeAlias = tuple[object, ...]


class _Pattern:
    """The pattern of all bindings with the same arguments."""

    __slots__ = ("all", "bindings", "keys", "wanted")

    def __init__(self, wanted: _Wanted, *, all_: bool) -> None:
        self.wanted = wanted
        self.all = all_
        self.bindings: dict[Binding, None] = {}
        self.keys: list[_Key] = []
        """Its keys in the index."""

    def __repr__(self) -> str:
        return f"<_Pattern of {len(self.bindings)} bindings>"


class HeadersIndex:
    """Patterns by the headers that a message must have to be compared with them.

    A pattern that wants all of its headers is indexed by one of them, the one with the fewest
    patterns; a pattern that wants any is indexed by each. So a message is compared only with
    patterns of which at least one header matches, and with those that want nothing.

    Invariants: every pattern has a binding; ``_by_key`` has no empty entries.
    """

    def __init__(self) -> None:
        self._patterns: dict[tuple[bool, bytes], _Pattern] = {}
        self._by_key: dict[_Key, dict[_Pattern, Field]] = {}
        self._always: dict[_Pattern, None] = {}

    def __repr__(self) -> str:
        return f"<HeadersIndex of {len(self._patterns)} patterns>"

    def add(self, binding: Binding) -> None:
        all_, wanted = _pattern_of(binding.arguments)
        name = all_, encode_table(dict(sorted(wanted)))
        pattern = self._patterns.get(name)
        if pattern is None:
            pattern = self._patterns[name] = _Pattern(wanted, all_=all_)
            self._index(pattern)
        pattern.bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        all_, wanted = _pattern_of(binding.arguments)
        name = all_, encode_table(dict(sorted(wanted)))
        pattern = self._patterns[name]
        del pattern.bindings[binding]
        if pattern.bindings:
            return
        del self._patterns[name]
        self._always.pop(pattern, None)
        for key in pattern.keys:
            under = self._by_key[key]
            del under[pattern]
            if not under:
                del self._by_key[key]

    def match(self, routing_keys: Sequence[str], headers: Headers) -> Iterator[Target | None]:
        for pattern in self._always:
            for binding in pattern.bindings:
                yield binding.target
        seen: set[_Pattern] = set()
        compared = 0
        for name, got in headers.items():
            for key in ((name,), _key_of(name, got)):
                for pattern, wanted in self._by_key.get(key, _NOTHING).items():
                    compared += 1
                    if compared >= COMPARISONS_PER_PAUSE:
                        compared = 0
                        yield None
                    if pattern in seen or not _fits(wanted, got):
                        continue
                    if pattern.all:
                        if len(pattern.wanted) > len(headers):
                            continue
                        misfit = _first_misfit(pattern.wanted, headers)
                        compared += misfit
                        if misfit < len(pattern.wanted):
                            continue
                    seen.add(pattern)
                    for binding in pattern.bindings:
                        yield binding.target

    def _index(self, pattern: _Pattern) -> None:
        keys = [
            (name,) if field.type is FieldType.VOID else _key_of(name, field)
            for name, field in pattern.wanted
        ]
        fields = [field for _, field in pattern.wanted]
        if pattern.all:
            if not keys:
                self._always[pattern] = None
                return
            sizes = [len(self._by_key.get(key, ())) for key in keys]
            least = sizes.index(min(sizes))
            keys, fields = [keys[least]], [fields[least]]
        pattern.keys = keys
        for key, field in zip(keys, fields, strict=True):
            self._by_key.setdefault(key, {})[pattern] = field


_NOTHING: Final[Mapping[_Pattern, Field]] = {}


def _pattern_of(arguments: Mapping[str, Field]) -> tuple[bool, _Wanted]:
    """Return whether all must match, and the wanted headers."""
    match = arguments.get(X_MATCH)
    mode = match.value if match is not None and isinstance(match.value, bytes) else b"all"
    with_x = mode.endswith(b"-with-x")
    wanted = tuple(
        (name, field)
        for name, field in arguments.items()
        if name != X_MATCH and (with_x or not name.startswith(IGNORED_PREFIX))
    )
    return not mode.startswith(b"any"), wanted


def wanted_by(binding: Binding) -> Iterator[str]:
    """Return the headers that the binding reads."""
    return (name for name, _ in _pattern_of(binding.arguments)[1])


def _key_of(name: str, field: Field) -> _Key:
    """Return a key that is the same for all values that match each other; tables, which cannot be
    hashed, share one key."""
    try:
        hash(field.value)
    except TypeError:
        return name, None, None
    return name, isinstance(field.value, bool), field.value


def _first_misfit(wanted: _Wanted, headers: Headers) -> int:
    """Return how many of ``wanted`` match before the first that does not."""
    for at, (name, field) in enumerate(wanted):
        if not _fits(field, headers.get(name)):
            return at
    return len(wanted)


def _fits(wanted: Field, got: Field | None) -> bool:
    if got is None:
        return False
    if wanted.type is FieldType.VOID:
        return True
    # To Python True equals 1, to Erlang it does not.
    both_or_neither = isinstance(wanted.value, bool) == isinstance(got.value, bool)
    return both_or_neither and wanted.value == got.value


class HeadersType:
    """The type ``headers``."""

    name = "headers"

    def reads_headers(self, exchange: Exchange) -> bool:
        """Return True: only headers matter."""
        return True

    def check(self, exchange: Exchange) -> None:
        """Accept all arguments."""

    def check_binding(self, binding: Binding) -> None:
        """Raise 406 for an invalid ``x-match``."""
        match = binding.arguments.get(X_MATCH)
        if match is None:
            return
        shown = render_value(match.value)
        if match.type is not FieldType.LONGSTR:
            raise precondition_failed(
                f"Invalid x-match field type {match.type.erlang_name} "
                f"(value {shown}); expected longstr"
            )
        if match.value not in _HOW_MANY:
            raise precondition_failed(
                f"Invalid x-match field value {shown}; expected all, any, all-with-x, or any-with-x"
            )

    def index(self, exchange: Exchange) -> HeadersIndex:
        """Return an empty index."""
        return HeadersIndex()
