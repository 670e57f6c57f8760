"""The seed: the contents of the catalogue at the very first start, as the settings say."""

from dataclasses import dataclass, field

from arneb_core.access.passwords import NO_PASSWORD, PasswordHash
from arneb_core.access.records import GlobalParameter, User


@dataclass(frozen=True, slots=True)
class SeedUser:
    """A user from the settings, with every right in all vhosts from the settings."""

    name: str
    password: str = field(repr=False)
    """In clear text; empty if there is a hash."""
    tags: tuple[str, ...] = ()
    hash: PasswordHash = NO_PASSWORD
    """A hash of the password that was made elsewhere."""


@dataclass(frozen=True, slots=True)
class Seed:
    """What the catalogue contains at the first start."""

    vhosts: tuple[str, ...] = ("/",)
    users: tuple[SeedUser, ...] = ()
    found: tuple[str, ...] = ()
    """Vhosts with data already in the store. They are created, but nobody is let in."""
    copied: tuple[User | GlobalParameter, ...] = ()
    """Records copied from another store; they include ``users`` then."""
