"""The client of one connection: its kind, its version and what it understands.

The rule: no command is sent unasked that the client's version, or its kind, does not know. The
versions here are those of Pulsar's protocol that introduced the command or field.
"""

from dataclasses import dataclass
from typing import Final

HEARERS: Final = ("Pulsar-Java", "Arneb-Python")
"""How the names of Java clients and of our own library begin; their versions follow."""


@dataclass(frozen=True, slots=True)
class ClientTraits:
    """What CONNECT said; nothing before it came."""

    name: str = ""
    """Its library, and the version of that."""
    version: int = 0
    """The protocol version: the lower of its own and ours."""
    takes_broker_metadata: bool = False
    """It said that it reads broker metadata in front of an entry."""

    @property
    def reads_broker_metadata(self) -> bool:
        """Java's clients say so by a flag that came with this version."""
        return self.version >= 16 and self.takes_broker_metadata

    @property
    def answers_pings(self) -> bool:
        return self.version >= 1

    @property
    def reads_checksums(self) -> bool:
        """C++ clients have had them since version 6, and have got them right since this one."""
        return self.version >= 11

    @property
    def hears_active_changes(self) -> bool:
        return self.version >= 12

    @property
    def hears_end_of_topic(self) -> bool:
        """Clients know it from version 9 on, but C++ and Go clients close the connection on it,
        reconnect, are told again, and so on."""
        return self.version >= 9 and self.name.startswith(HEARERS)
