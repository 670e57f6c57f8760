"""The settings of a cluster: which shard this node is a member of, and how nodes reach each other.

The rule: nothing of the cluster is imported here, so that a broker that is alone has none of it in
its process; what goes together is judged at once, and what only Pulsar knows when a node starts.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from arneb.settings.addresses import Listen
from arneb.settings.shards import NAME, NAMESPACE, ClusterShardTable, check_shards
from arneb.settings.tls import NO_FILE

EVERYWHERE: Final = ("*", "0.0.0.0", "::")
"""Addresses by which nobody is reached."""

GONE_AFTER_S_MIN: Final = 60.0
"""A node that is started again is not gone."""

COPY_BYTES_PER_S_MIN: Final = 1 << 20
"""A chunk: who takes a copy waits for each."""

PULSAR_SCHEMES: Final = ("pulsar://", "pulsar+ssl://")
HTTP_SCHEMES: Final = ("http://", "https://")


def _check(name: str, value: Any, *schemes: str) -> None:
    if value and not value.startswith(schemes):
        raise ValueError(f"{name}: expected {' or '.join(schemes)}host:port, got {value!r}")


@dataclass(frozen=True, slots=True)
class ClusterPulsarTable:
    """The Apache Pulsar that holds the log."""

    url: str = ""
    """Where its brokers are, as ``pulsar://a:6650,b:6650`` or ``pulsar+ssl://…``."""
    admin_url: str = ""
    """Where one of them answers admin calls, as ``http://a:8080``: at the start it is asked whether
    the namespace is set as it must be."""
    namespace: str = "public/arneb"
    """``tenant/namespace`` of the shard's topics. It is not made here."""
    token_file: Path = NO_FILE
    """A file with the token by which this node proves who it is."""
    trust_certificates: Path = NO_FILE
    """A file of certificates that brokers may prove themselves by; without it, those of the
    system."""
    certificate: Path = NO_FILE
    """What this node shows, for mutual TLS."""
    key: Path = NO_FILE
    """The private key of that."""

    def __post_init__(self) -> None:
        if self.url and not self.url.startswith(PULSAR_SCHEMES):
            raise ValueError(f"expected url to be pulsar://… or pulsar+ssl://…, got {self.url!r}")
        if self.admin_url and not self.admin_url.startswith(HTTP_SCHEMES):
            raise ValueError(
                f"expected admin_url to be http://… or https://…, got {self.admin_url!r}"
            )
        if not NAMESPACE.fullmatch(self.namespace):
            raise ValueError(f"expected namespace to be tenant/namespace, got {self.namespace!r}")
        if (self.certificate == NO_FILE) != (self.key == NO_FILE):
            raise ValueError("expected certificate and key, or neither")


@dataclass(frozen=True, slots=True)
class ClusterInternalTable:
    """The port by which nodes bring each other clients. They prove who they are by a secret that
    all of them have, by certificates of an authority of the cluster's own, or by both."""

    listen: Listen = None
    """Where to listen for the other nodes. Off, clients of this node are not brought to it while it
    leads: they hear that the leader cannot be reached."""
    secret_file: Path = NO_FILE
    """A file with the secret, of at least 32 bytes. A secret alone does not hide what nodes say."""
    certificate: Path = NO_FILE
    """What this node shows."""
    key: Path = NO_FILE
    """The private key of that."""
    authority: Path = NO_FILE
    """Certificates of the authority that has signed those of all nodes, and of nobody else."""

    def __post_init__(self) -> None:
        files = self.certificate, self.key, self.authority
        if NO_FILE in files and set(files) != {NO_FILE}:
            raise ValueError("expected certificate, key and authority, or none of them")

    @property
    def is_secured(self) -> bool:
        """Nodes come by TLS."""
        return self.certificate != NO_FILE


@dataclass(frozen=True, slots=True)
class ClusterToldTable:
    """Where others are told that this node is reached while it leads."""

    internal: str = ""
    """``host:port`` of its internal port for the other nodes; empty: where it listens."""
    pulsar: str = ""
    """``pulsar://host:port`` for Pulsar's clients; empty: ``pulsar.advertised_url``. Without either
    they use their topics through the node that they reached."""
    pulsar_tls: str = ""
    """``pulsar+ssl://host:port``, the same by TLS; empty: ``pulsar.advertised_tls_url``."""
    http: str = ""
    """``http://host:port`` of the management API; shown to operators."""
    http_pulsar: str = ""
    """``http://host:port`` of Pulsar's admin API, to which requests are redirected. Without it the
    leader is asked."""

    def __post_init__(self) -> None:
        _check("pulsar", self.pulsar, "pulsar://")
        _check("pulsar_tls", self.pulsar_tls, "pulsar+ssl://")
        _check("http", self.http, *HTTP_SCHEMES)
        _check("http_pulsar", self.http_pulsar, *HTTP_SCHEMES)
        if self.internal and not self.internal.rpartition(":")[2].isdigit():
            raise ValueError(f"internal: expected host:port, got {self.internal!r}")


@dataclass(frozen=True, slots=True)
class ClusterTable:
    """A node of several that keep the same messages, of which one leads. Off until ``node`` has a
    name; then everything that this node stores is one shard, whose log is a topic of Apache
    Pulsar's, unless ``shards`` name others."""

    node: str = ""
    """The name of this node, which no other node of the cluster has and which stays the same."""
    shard: str = "main"
    """The name of the shard that holds everything that no other does, users among it; the same on
    all of its nodes."""
    prefer: tuple[str, ...] = ()
    """Names of nodes, the one first that is to lead when several could; the same on all nodes. A
    leader is not displaced by a node that is preferred; it hands over when it is told to."""
    copies_min: int = 2
    """So many nodes must have something on disk before Pulsar's log topic is trimmed of it, alive
    or not; with fewer nodes nothing is trimmed, and an alarm says so. The same on all nodes."""
    member_gone_after_s: float = 86_400.0
    """The log topic waits so long for a node that is away; then it is trimmed without it, if enough
    others have a copy, and the node needs one when it comes back."""
    copy_bytes_per_s: int = 64 << 20
    """How fast this node gives another one a copy of what it has, at the most."""
    pulsar: ClusterPulsarTable = ClusterPulsarTable()
    internal: ClusterInternalTable = ClusterInternalTable()
    told: ClusterToldTable = ClusterToldTable()
    shards: tuple[ClusterShardTable, ...] = ()
    """Shards beside the first one, each led by a node of its own if that is preferred. The same on
    all nodes."""

    def __post_init__(self) -> None:
        if self.copies_min < 1:
            raise ValueError(f"copies_min: expected 1 or more, got {self.copies_min}")
        if self.member_gone_after_s < GONE_AFTER_S_MIN:
            text = f"expected {GONE_AFTER_S_MIN} or more, got {self.member_gone_after_s}"
            raise ValueError(f"member_gone_after_s: {text}")
        if self.copy_bytes_per_s < COPY_BYTES_PER_S_MIN:
            text = f"expected {COPY_BYTES_PER_S_MIN} or more, got {self.copy_bytes_per_s}"
            raise ValueError(f"copy_bytes_per_s: {text}")
        if not self.node:
            return
        for name, value in (("node", self.node), ("shard", self.shard)):
            if not NAME.fullmatch(value):
                text = "letters, digits, '.', '_' and '-', and 64 at the most"
                raise ValueError(f"{name}: expected {text}, got {value!r}")
        if wrong := [each for each in self.prefer if not NAME.fullmatch(each)]:
            raise ValueError(f"prefer: expected names of nodes, got {wrong[0]!r}")
        check_shards(self.shard, self.shards)
        for setting, text in (("url", self.pulsar.url), ("admin_url", self.pulsar.admin_url)):
            if not text:
                raise ValueError(f"expected pulsar.{setting} beside node")
        internal = self.internal
        if internal.secret_file == NO_FILE and not internal.is_secured:
            text = "internal.secret_file, or internal.certificate, key and authority, beside node"
            raise ValueError(f"expected {text}")
        listen = internal.listen
        if listen is not None and listen.host in EVERYWHERE and not self.told.internal:
            raise ValueError(f"expected told.internal beside internal.listen = {str(listen)!r}")

    @property
    def is_on(self) -> bool:
        """This node is part of a cluster."""
        return bool(self.node)

    @property
    def priority(self) -> int:
        """Of this node among those that could lead; the lowest is asked first."""
        return self.prefer.index(self.node) if self.node in self.prefer else len(self.prefer)

    @property
    def topic(self) -> str:
        """The complete name of the shard's log topic."""
        return f"persistent://{self.pulsar.namespace}/{self.shard}"


ALONE: Final = ClusterTable()
"""A node without others."""
