"""Access: who may use which port, in words for whoever starts the broker.

The rule: what is said follows from the settings by which the frontends themselves go, so that
nobody believes a port to be shut that is open.
"""

from collections.abc import Iterator, Sequence

from arneb.config import Config, Listen
from arneb_amqp.config import GUEST, User
from arneb_pulsar.authentication.passwords import ShutOut

EVERYBODY = "open to everyone who can reach it"


def access(config: Config) -> Iterator[str]:
    """One line for each port that is on."""
    methods = config.pulsar.authentication.methods
    if _on(config.amqp.listen, config.amqp.tls.listen):
        yield f"amqp: open to {_named(config.amqp.users)}"
    if _on(config.pulsar.listen, config.pulsar.tls.listen):
        yield f"pulsar: {_proofs(methods)}"
    if _on(config.http.listen):
        users = named_users(config)
        proofs = [*methods, *(["password of an AMQP user"] if users else [])]
        opened = _opened(proofs, config.http.open_metrics, "/healthz")
        yield f"http: {_proofs_over_http(proofs)}{opened}"
    if _on(config.http_pulsar.listen):
        opened = _opened(methods, config.http_pulsar.open_metrics)
        yield f"http-pulsar: {_proofs_over_http(methods)}{opened}"


def shut_out(config: Config, lines: Sequence[ShutOut]) -> Iterator[str]:
    """One line for each line of a file of passwords that lets nobody in."""
    for each in lines:
        yield f"pulsar.authentication: {config.pulsar.authentication.basic_file}: {each}"


def named_users(config: Config) -> Sequence[User]:
    """The users of AMQP whom somebody has named: everybody knows the password of guest."""
    return [each for each in config.amqp.users if each != GUEST]


def _on(*listens: Listen) -> bool:
    return any(each is not None for each in listens)


def _named(users: Sequence[User]) -> str:
    names = [f"{each.name}{' from this machine' * each.loopback_only}" for each in users]
    return f"{', '.join(names) or 'nobody'}, by password"


def _proofs(methods: Sequence[str]) -> str:
    return f"requires authentication by {', '.join(methods)}" if methods else EVERYBODY


def _proofs_over_http(methods: Sequence[str]) -> str:
    """Certificates do not come that way."""
    left = [each for each in methods if each != "tls"]
    return "open to nobody" if methods and not left else _proofs(left)


def _opened(methods: Sequence[str], metrics: bool, *paths: str) -> str:
    """What is open to others all the same."""
    opened = [*paths, *(["/metrics"] if metrics else [])]
    return f"; open to everyone: {', '.join(opened)}" if methods and opened else ""
