"""Access: who may use which port, in words for the operator who starts the broker.

The rule: the words follow from the same settings that the frontends use, so that nobody believes
an open port to be closed.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from arneb.logins.settings import INTERNAL
from arneb.settings.config import Config, Listen
from arneb_amqp.config import GUEST
from arneb_core.access.records import User
from arneb_core.access.tables import Tables
from arneb_pulsar.authentication.passwords import ShutOut

NAMED_MAX: Final = 10
"""The most users that one line names."""

EVERYBODY = "open to everyone who can reach it"


def access(config: Config, users: Tables) -> Iterator[str]:
    """Yield one line for each port that is on."""
    methods = config.pulsar.authentication.methods
    rights = "; roles need rights" if config.access.authorization.enabled else ""
    if _on(config.amqp.listen, config.amqp.tls.listen):
        yield f"amqp: open to {_named(config, users.rows(User))}"
    if _on(config.pulsar.listen, config.pulsar.tls.listen):
        yield f"pulsar: {_proofs(methods)}{rights}"
    if _on(config.http.listen, config.http.tls.listen):
        passwords = ["password of a user"] if has_named(users) else []
        proofs = [*methods, *passwords] or [_guests(config)]
        opened = _opened(proofs, config.http.open_metrics, "/healthz", "/readyz")
        everything = f"{_proofs_over_http(proofs)}{opened}"
        if _on(config.amqp.listen, config.amqp.tls.listen):
            yield f"http: management API requires the password of a user; all else {everything}"
        else:
            yield f"http: {everything}"
    if _on(config.metrics.listen):
        yield f"metrics: {EVERYBODY}"
    if _on(config.http_pulsar.listen, config.http_pulsar.tls.listen):
        opened = _opened(methods, config.http_pulsar.open_metrics)
        yield f"http-pulsar: {_proofs_over_http(methods)}{rights}{opened}"


def shut_out(config: Config, lines: Sequence[ShutOut]) -> Iterator[str]:
    """Yield one line for each unusable line of the password file."""
    for each in lines:
        yield f"pulsar.authentication: {config.pulsar.authentication.basic_file}: {each}"


def has_named(users: Tables) -> bool:
    """Whether there is any user besides ``guest`` with the password that everybody knows."""
    return any(
        each.name != GUEST.name or not each.password.admits(GUEST.password)
        for each in users.rows(User)
    )


def _on(*listens: Listen) -> bool:
    return any(each is not None for each in listens)


def _named(config: Config, users: Sequence[User]) -> str:
    names = [
        f"{each.name}{' from this machine' * config.amqp.is_loopback_only(each.name)}"
        for each in users[:NAMED_MAX]
    ]
    more = [f"{len(users) - NAMED_MAX} more"] if len(users) > NAMED_MAX else []
    by_certificate = config.amqp.external_login and _on(config.amqp.tls.listen)
    ways = "password, or over TLS by certificate" if by_certificate else "password"
    known = f"{', '.join([*names, *more]) or 'nobody'}, by {ways}"
    others = [each for each in config.logins.backends if each != INTERNAL]
    return f"{known}; and to whom {' or '.join(others)} lets in" if others else known


def _guests(config: Config) -> str:
    """Describe ``guest``, who may log in while there is no other user."""
    return f"password of guest{' from this machine' * config.amqp.is_loopback_only(GUEST.name)}"


def _proofs(methods: Sequence[str]) -> str:
    return f"requires authentication by {', '.join(methods)}" if methods else EVERYBODY


def _proofs_over_http(methods: Sequence[str]) -> str:
    """Describe authentication over HTTP, where client certificates are not used."""
    left = [each for each in methods if each != "tls"]
    return "open to nobody" if methods and not left else _proofs(left)


def _opened(methods: Sequence[str], metrics: bool, *paths: str) -> str:
    """Describe the paths that are open to everyone all the same."""
    opened = [*paths, *(["/metrics"] if metrics else [])]
    return f"; open to everyone: {', '.join(opened)}" if methods and opened else ""
