"""The trusted caller: the user who opened the control socket.

The rule: the caller is an administrator with every right in every vhost, but no user of the
catalogue; so nothing that it makes has an owner, as with ``rabbitmqctl``.
"""

from typing import Final

from arneb_core.access.principals import Principal, Question

NAME: Final = "rmq-cli"
"""RabbitMQ's name for such a caller where it tells who has made something."""


class _Everything:
    may_be_kept = True

    def may(self, vhost: str, question: Question) -> bool:
        return True

    def limits_keys(self, vhost: str, exchange: str) -> bool:
        return False

    async def ask(self, vhost: str, question: Question) -> None:
        """Do nothing: every answer is known."""

    async def renew(self, user: str, secret: str) -> None:
        """Do nothing: nothing expires."""

    async def admits(self, vhost: str, address: str) -> bool:
        return True


TRUSTED: Final = Principal(NAME, _Everything(), frozenset({"administrator"}))
