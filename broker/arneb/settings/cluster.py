"""The settings of a cluster: which shard this node is a member of, and how nodes reach each other.

The rule: nothing of the cluster is imported here, so that a single broker does not load it. Values
that do not fit together are refused at once; what only Pulsar knows is checked when a node starts.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from arneb.settings.addresses import Listen
from arneb.settings.shards import NAME, NAMESPACE, ClusterShardTable, check_shards
from arneb.settings.tls import NO_FILE

EVERYWHERE: Final = ("*", "0.0.0.0", "::")
"""Addresses to listen at, by which a node cannot be reached."""

GONE_AFTER_S_MIN: Final = 60.0
"""Lower bound of ``member_gone_after_s``: a node that restarts must not count as gone."""

COPY_BYTES_PER_S_MIN: Final = 1 << 20
"""Lower bound of ``copy_bytes_per_s``: one chunk a second, since the receiver waits for each."""

PULSAR_SCHEMES: Final = ("pulsar://", "pulsar+ssl://")
HTTP_SCHEMES: Final = ("http://", "https://")


def _check(name: str, value: Any, *schemes: str) -> None:
    if value and not value.startswith(schemes):
        raise ValueError(f"{name}: expected {' or '.join(schemes)}host:port, got {value!r}")


@dataclass(frozen=True, slots=True)
class ClusterPulsarTable:
    """The Apache Pulsar that stores the log."""

    url: str = ""
    """Its brokers, such as ``pulsar://a:6650,b:6650`` or ``pulsar+ssl://…``."""
    admin_url: str = ""
    """The admin API of one of them, such as ``http://a:8080``; used at start to check the
    namespace's policies."""
    namespace: str = "public/arneb"
    """``tenant/namespace`` of the shards' topics. The broker does not create it."""
    token_file: Path = NO_FILE
    """A file with this node's token."""
    trust_certificates: Path = NO_FILE
    """A file of certificates to verify brokers with; without it, the system's."""
    certificate: Path = NO_FILE
    """This node's certificate, for mutual TLS."""
    key: Path = NO_FILE
    """The certificate's private key."""

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
    """The port through which nodes forward clients to each other. Nodes authenticate with a shared
    secret, with certificates of the cluster's own authority, or with both."""

    listen: Listen = None
    """Where to listen for the other nodes. If off, the other nodes cannot forward clients to this
    one while it leads, and tell them that the leader cannot be reached."""
    secret_file: Path = NO_FILE
    """A file with the secret, of at least 32 bytes. A secret alone does not encrypt the traffic."""
    certificate: Path = NO_FILE
    """This node's certificate."""
    key: Path = NO_FILE
    """The certificate's private key."""
    authority: Path = NO_FILE
    """The certificates of the authority that signs those of the nodes, and nobody else's."""

    def __post_init__(self) -> None:
        files = self.certificate, self.key, self.authority
        if NO_FILE in files and set(files) != {NO_FILE}:
            raise ValueError("expected certificate, key and authority, or none of them")

    @property
    def is_secured(self) -> bool:
        """Whether nodes connect by TLS."""
        return self.certificate != NO_FILE


@dataclass(frozen=True, slots=True)
class ClusterAdvertisedTable:
    """The addresses of this node for others to use while it leads."""

    internal: str = ""
    """``host:port`` of its internal port, for the other nodes; empty: the address it listens on."""
    pulsar: str = ""
    """``pulsar://host:port`` for Pulsar clients; empty: ``pulsar.advertised_url``. Without either,
    clients use their topics through the node they are connected to."""
    pulsar_tls: str = ""
    """``pulsar+ssl://host:port``, the same over TLS; empty: ``pulsar.advertised_tls_url``."""
    http: str = ""
    """``http://host:port`` of the management API, shown to operators."""
    http_pulsar: str = ""
    """``http://host:port`` of Pulsar's admin API, to which other nodes redirect requests. Without
    it they forward requests to the leader."""

    def __post_init__(self) -> None:
        _check("pulsar", self.pulsar, "pulsar://")
        _check("pulsar_tls", self.pulsar_tls, "pulsar+ssl://")
        _check("http", self.http, *HTTP_SCHEMES)
        _check("http_pulsar", self.http_pulsar, *HTTP_SCHEMES)
        if self.internal and not self.internal.rpartition(":")[2].isdigit():
            raise ValueError(f"internal: expected host:port, got {self.internal!r}")


@dataclass(frozen=True, slots=True)
class ClusterTable:
    """A node of a cluster, whose nodes keep the same messages and of which one leads. Off until
    ``node`` is set. Everything that the node stores is one shard, whose log is a topic of Apache
    Pulsar, unless ``shards`` define more."""

    node: str = ""
    """The name of this node, unique in the cluster and never changed."""
    shard: str = "main"
    """The name of the shard with everything that no other shard has, including users; the same on
    all nodes."""
    prefer: tuple[str, ...] = ()
    """Names of nodes in the order in which they should lead; the same on all nodes. A preferred
    node does not displace a leader, which hands over only when asked."""
    copies_min: int = 2
    """How many nodes, alive or not, must have a message on disk before it is trimmed from Pulsar's
    log topic. With fewer nodes nothing is trimmed, and an alarm reports it. The same on all
    nodes."""
    member_gone_after_s: float = 86_400.0
    """How long the log topic waits for an absent node. Then it is trimmed, if enough other nodes
    have a copy, and the node needs a new copy when it returns."""
    copy_bytes_per_s: int = 64 << 20
    """The maximum speed at which this node sends a copy of its data to another."""
    pulsar: ClusterPulsarTable = ClusterPulsarTable()
    internal: ClusterInternalTable = ClusterInternalTable()
    advertised: ClusterAdvertisedTable = ClusterAdvertisedTable()
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
        if listen is not None and listen.host in EVERYWHERE and not self.advertised.internal:
            raise ValueError(
                f"expected advertised.internal beside internal.listen = {str(listen)!r}"
            )

    @property
    def is_on(self) -> bool:
        """Whether this node is part of a cluster."""
        return bool(self.node)

    @property
    def priority(self) -> int:
        """This node's rank among those that could lead; the lowest is preferred."""
        return self.prefer.index(self.node) if self.node in self.prefer else len(self.prefer)

    @property
    def topic(self) -> str:
        """The complete name of the shard's log topic."""
        return f"persistent://{self.pulsar.namespace}/{self.shard}"


ALONE: Final = ClusterTable()
"""The settings of a node without a cluster."""
