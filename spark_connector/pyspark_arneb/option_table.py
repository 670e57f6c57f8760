"""A table of options: the name and meaning of each, and the value that was given.

The rule: an option is described once, in its table, from which the guide's table is made; an
unknown option is refused by name, with the nearest known one.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, TypeVar

FOREIGN_PREFIXES: Final = ("kafka.", "kafkaconsumer.", "fetchoffset.", "pulsar.")
"""Prefixes of client settings of the Kafka and Pulsar sources: meaningless here, so ignored."""

CATALOG_PROPERTIES: Final = frozenset(
    {"location", "provider", "owner", "external", "comment", "is_managed_location", "collation"}
)
"""Options that Spark's catalogue adds to those of a table."""

LOCATION: Final = "location"
"""The catalogue's name for a table's ``path``; it also gives one to tables with another address."""
ADDRESSES: Final = ("path", "service.url")

CATALOG_PREFIX: Final = "option."
"""Prefix of the options that the catalogue repeats. What it gives without such a twin are the
table's properties."""

MADE_FOR_A_TABLE: Final = "provider"
"""An option that is present only when Spark's catalogue asks."""

Value = TypeVar("Value")


class OptionError(ValueError):
    """An option is missing, unknown or malformed; the text names it."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f'option "{option}": {problem}')
        self.option = option
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a read or a write."""

    name: str
    default: str
    """The default, in words."""
    meaning: str
    """For the guide."""
    aliases: tuple[str, ...] = ()


def aliases_of(options: Iterable[Option]) -> dict[str, tuple[str, ...]]:
    """Return every option with its other names."""
    return {option.name: option.aliases for option in options}


class GivenOptions:
    """The options as given, by names in any case.

    ``aliases`` holds every known option with its other names. Raises :class:`OptionError` on any
    other option.
    """

    def __init__(self, given: Mapping[str, str], aliases: Mapping[str, tuple[str, ...]]) -> None:
        self._values: dict[str, tuple[str, str]] = {}
        canonical = {
            spelling.lower(): name
            for name, others in aliases.items()
            for spelling in (name, *others)
        }
        for spelling, value in given.items():
            if spelling.lower().startswith((*FOREIGN_PREFIXES, CATALOG_PREFIX)):
                continue
            if spelling.lower() in CATALOG_PROPERTIES:
                continue
            name = canonical.get(spelling.lower())
            if name is None and is_property(spelling, given):
                continue
            if name is None:
                raise OptionError(spelling, "no such option" + _suggestion(spelling, canonical))
            if name in self._values:
                other = self._values[name][0]
                raise OptionError(spelling, f'is another name of "{other}": give one of them')
            self._values[name] = (_spelling(spelling, (name, *aliases[name])), value)
        located = {each.lower(): value for each, value in given.items()}.get(LOCATION)
        if located and "path" in aliases and not any(each in self._values for each in ADDRESSES):
            self._values["path"] = "path", located

    def __repr__(self) -> str:
        return f"<GivenOptions {', '.join(self._values)}>"  # no values: some are secret

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def refuse(self, names: Iterable[str], why: str) -> None:
        """Raise :class:`OptionError` if any of these options was given."""
        for name in names:
            if name in self._values:
                raise OptionError(self._values[name][0], why)

    def parse(
        self, name: str, parser: Callable[[str], Value], default: Value, *, strip: bool = True
    ) -> Value:
        """Return the option's value, or ``default`` if it was not given. ``strip=False`` keeps
        blanks around it, for names that may begin or end with some."""
        if name not in self._values:
            return default
        spelling, text = self._values[name]
        try:
            return parser(text.strip() if strip else text)
        except ValueError as problem:
            raise OptionError(spelling, str(problem)) from None

    def required(self, name: str, parser: Callable[[str], str]) -> str:
        """Return the option's value; it must have been given."""
        if name not in self._values:
            raise OptionError(name, "is required")
        return self.parse(name, parser, "")


def is_property(name: str, given: Mapping[str, str]) -> bool:
    """Return whether it is a property of a catalogue table (``TBLPROPERTIES``), and no option."""
    return MADE_FOR_A_TABLE in given and CATALOG_PREFIX + name not in given


def _spelling(given: str, known: Iterable[str]) -> str:
    """Return the option's name as users know it: Spark may have lowered its case."""
    return next(spelling for spelling in known if spelling.lower() == given.lower())


def _suggestion(spelling: str, canonical: Mapping[str, str]) -> str:
    close = get_close_matches(spelling.lower(), canonical, n=1)
    return f'; did you mean "{canonical[close[0]]}"?' if close else ""
