"""Logins: authenticates clients by their credentials.

The rule: a refused client is not told the reason, which is logged. A client that another node has
authenticated is not asked for a password again, but is looked up nevertheless: it may be gone here.
"""

from typing import Protocol

from arneb_amqp.config import AmqpConfig
from arneb_amqp.errors import not_allowed
from arneb_amqp.server.admission.certificates import NoName, name_of
from arneb_amqp.server.transport.remote import Remote
from arneb_amqp.session.connection.handshake import BY_PASSWORD, EXTERNAL, login_refused
from arneb_amqp.session.effects import LogIn, Renew, Vouch
from arneb_core.access.authority import Authority
from arneb_core.access.principals import Credentials, LoginRefused, Principal


def mechanisms_for(peer: Remote, external: bool) -> tuple[str, ...]:
    """Return the login mechanisms for a client. As in RabbitMQ, a client without a certificate
    learns only from the refusal that it needs one."""
    if external and peer.secured:
        return (*BY_PASSWORD, EXTERNAL)
    return BY_PASSWORD


class LoginEvents(Protocol):
    """Receives the outcome of logins."""

    def logged_in(self, user: str, mechanism: str) -> None:
        """Note a successful login."""
        ...

    def login_refused(self, user: str, mechanism: str, reason: str) -> None:
        """Note a refused login."""
        ...


class Logins:
    """Authenticates clients."""

    def __init__(self, authority: Authority, config: AmqpConfig) -> None:
        self._authority = authority
        self._config = config

    def __repr__(self) -> str:
        return f"<Logins by {self._authority!r}>"

    async def log_in(self, login: LogIn, peer: Remote, events: LoginEvents) -> Principal:
        """Authenticate the client. Raises 403."""
        name = login.name
        try:
            if login.password is None:
                name = self._certified(peer)
            principal = await self._authority.log_in(
                Credentials(name, login.password, peer.address, peer.loopback, login.mechanism)
            )
        except LoginRefused as error:
            events.login_refused(name, login.mechanism, str(error))
            raise login_refused(login.mechanism) from None
        events.logged_in(principal.name, login.mechanism)
        return principal

    def _certified(self, peer: Remote) -> str:
        config = self._config
        try:
            if peer.certificate is None:
                raise NoName("the client has shown no certificate that was verified")
            return name_of(
                peer.certificate, config.certificate_login, config.certificate_san_type,
                config.certificate_san_index,
            )  # fmt: skip
        except NoName as error:
            self._authority.refused("EXTERNAL", peer.address, str(error))
            raise LoginRefused(str(error)) from None

    async def renew(self, order: Renew) -> None:
        """Take a new secret of a logged-in client. Raises 530."""
        try:
            await order.principal.verdicts.renew(order.principal.name, order.secret)
        except LoginRefused as error:
            self._authority.refused("update-secret", order.principal.name, str(error))
            raise not_allowed("New secret was refused by one of the backends") from None

    async def vouch(self, order: Vouch, peer: Remote, events: LoginEvents) -> Principal:
        """Look up a client that another node has authenticated. Raises 403."""
        credentials = Credentials(
            order.name, order.secret, peer.address, peer.loopback, order.mechanism
        )
        try:
            principal = await self._authority.log_in(credentials)
            if principal.name != order.name:
                raise LoginRefused(f"user '{order.name}' is '{principal.name}' here")
        except LoginRefused as error:
            events.login_refused(order.name, order.mechanism, str(error))
            raise login_refused(order.mechanism) from None
        events.logged_in(principal.name, order.mechanism)
        return principal
