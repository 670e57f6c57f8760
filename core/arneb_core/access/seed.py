"""The seed: who there is at the very first start, as the settings say."""

from dataclasses import dataclass, field

from arneb_core.access.passwords import NO_PASSWORD, PasswordHash
from arneb_core.access.records import GlobalParameter, User


@dataclass(frozen=True, slots=True)
class SeedUser:
    """A user whom the settings name, with every right in all the vhosts that they name."""

    name: str
    password: str = field(repr=False)
    """In clear text; empty where there is a hash."""
    tags: tuple[str, ...] = ()
    hash: PasswordHash = NO_PASSWORD
    """Of the password, made by somebody else."""


@dataclass(frozen=True, slots=True)
class Seed:
    """Who there is at the first start."""

    vhosts: tuple[str, ...] = ("/",)
    users: tuple[SeedUser, ...] = ()
    found: tuple[str, ...] = ()
    """Vhosts of which the store has something already. They are there, but nobody is let in."""
    copied: tuple[User | GlobalParameter, ...] = ()
    """What another store has, of which this one has a copy; ``users`` are among them then."""
