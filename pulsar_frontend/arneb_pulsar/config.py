"""Settings of the Pulsar door; the broker reads them from its configuration file."""

from dataclasses import dataclass

from arneb_pulsar.names import DEFAULT_NAMESPACE, parse_namespace


@dataclass(frozen=True, slots=True)
class PulsarConfig:
    """Each field is a key of the configuration table.

    Raises :class:`ValueError` for values that cannot be.
    """

    advertised_url: str = ""
    """What lookups answer, e.g. ``pulsar://broker.example:6650``. Empty: the address that the
    client's connection came in on, which is right unless something translates addresses."""

    namespaces: tuple[str, ...] = (DEFAULT_NAMESPACE,)
    """Namespaces (``tenant/namespace``) that exist while no topic stands in them."""

    handshake_timeout_s: float = 30.0
    keep_alive_s: float = 30.0
    """A peer silent for so long gets a PING, and is closed when silent as long again."""

    probe_timeout_s: float = 5.0
    """How long the connection of a name's present owner may take to prove that it lives."""

    def __post_init__(self) -> None:
        for namespace in self.namespaces:
            parse_namespace(namespace)
        if self.advertised_url and not self.advertised_url.startswith("pulsar://"):
            raise ValueError(f"advertised_url: expected pulsar://…, got {self.advertised_url!r}")
        for name in ("handshake_timeout_s", "keep_alive_s", "probe_timeout_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: expected more than 0, got {getattr(self, name)}")
