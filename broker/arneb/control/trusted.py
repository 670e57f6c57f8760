"""The trusted caller: whoever may open the control socket.

The rule: an administrator with every right in every vhost, who is no user of the catalogue; so
nothing that is made by it belongs to anybody, as with ``rabbitmqctl``.
"""

from typing import Final

from arneb_core.access.principals import Principal, Question

NAME: Final = "rmq-cli"
"""What RabbitMQ calls it where it says who has made something."""


class _Everything:
    may_be_kept = True

    def may(self, vhost: str, question: Question) -> bool:
        return True

    def limits_keys(self, vhost: str, exchange: str) -> bool:
        return False

    async def ask(self, vhost: str, question: Question) -> None:
        """It is known."""

    async def renew(self, user: str, secret: str) -> None:
        """Nothing runs out."""

    async def admits(self, vhost: str, address: str) -> bool:
        return True


TRUSTED: Final = Principal(NAME, _Everything(), frozenset({"administrator"}))
