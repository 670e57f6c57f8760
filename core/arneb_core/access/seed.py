"""The seed: who there is at the very first start, as the settings say."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SeedUser:
    """A user whom the settings name, with every right in all the vhosts that they name."""

    name: str
    password: str = field(repr=False)
    """In clear text."""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Seed:
    """Who there is at the first start."""

    vhosts: tuple[str, ...] = ("/",)
    users: tuple[SeedUser, ...] = ()
    found: tuple[str, ...] = ()
    """Vhosts of which the store has something already. They are there, but nobody is let in."""
