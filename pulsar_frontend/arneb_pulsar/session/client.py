"""The client of one connection: which it is, and what it understands.

The rule: nothing is said unasked that the client's version, or its kind, does not know. Each
version that counts here is that of Pulsar's protocol which brought the command or the field.
"""

from dataclasses import dataclass
from typing import Final

HEARERS: Final = ("Pulsar-Java", "Arneb-Python")
"""What Java clients call themselves, with their version behind it, and our own library."""


@dataclass(frozen=True, slots=True)
class Client:
    """What CONNECT said, or nothing yet."""

    name: str = ""
    """Its library and that one's version."""
    version: int = 0
    """The protocol's: the lower one of its own and ours."""
    takes_broker_metadata: bool = False
    """It said that it reads what a broker says of an entry, before the entry."""

    @property
    def reads_broker_metadata(self) -> bool:
        """Java's clients say so by a flag, which came with this version."""
        return self.version >= 16 and self.takes_broker_metadata

    @property
    def answers_pings(self) -> bool:
        return self.version >= 1

    @property
    def reads_checksums(self) -> bool:
        """C++ clients had them from version 6 on, and had them right from this one on."""
        return self.version >= 11

    @property
    def hears_active_changes(self) -> bool:
        return self.version >= 12

    @property
    def hears_end_of_topic(self) -> bool:
        """From version 9 on, but C++ and Go clients close the connection when they are told, come
        again, are told again, and so on."""
        return self.version >= 9 and self.name.startswith(HEARERS)
