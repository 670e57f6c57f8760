"""The ``access`` class, which pamqp leaves out and old clients still send.

AMQP 0-9-1 deprecated it; RabbitMQ answers every request with ticket 1.
"""

from typing import ClassVar, Final

from pamqp.base import Frame as Command

ACCESS_TICKET: Final = 1


class Access:
    """Namespace, as in :mod:`pamqp.commands`."""

    class Request(Command):
        """Ask for access to a realm."""

        # In wire order, which pamqp and our codec take from here.
        __slots__: ClassVar[list[str]] = [  # noqa: RUF023
            "realm",
            "exclusive",
            "passive",
            "active",
            "write",
            "read",
        ]
        frame_id: ClassVar[int] = 10
        index: ClassVar[int] = 0x001E000A
        name: ClassVar[str] = "Access.Request"
        synchronous: ClassVar[bool] = True
        _realm = "shortstr"
        _exclusive = "bit"
        _passive = "bit"
        _active = "bit"
        _write = "bit"
        _read = "bit"

        def __init__(
            self,
            realm: str = "/data",
            exclusive: bool = False,
            passive: bool = True,
            active: bool = True,
            write: bool = True,
            read: bool = True,
        ) -> None:
            self.realm = realm
            self.exclusive = exclusive
            self.passive = passive
            self.active = active
            self.write = write
            self.read = read

    class RequestOk(Command):
        """Grant a ticket."""

        __slots__: ClassVar[list[str]] = ["ticket"]
        frame_id: ClassVar[int] = 11
        index: ClassVar[int] = 0x001E000B
        name: ClassVar[str] = "Access.RequestOk"
        _ticket = "short"

        def __init__(self, ticket: int = ACCESS_TICKET) -> None:
            self.ticket = ticket
