"""What a node answers on its HTTP ports: the management API, Pulsar's admin API, and metrics.

The rule: this node answers about its own state, whether it leads or not. Every other request goes
to the broker of the shard that it is about; what concerns all shards is asked of each, and put
together.
"""

from collections.abc import Callable, Mapping

from starlette.types import ASGIApp, Scope

from arneb.clustered.ports.divided_metrics import DividedMetrics
from arneb.clustered.ports.own_page import OwnPage
from arneb.clustered.ports.own_port import (
    OwnPort,
    following_app,
    following_metrics_app,
    following_pulsar_app,
)
from arneb.clustered.ports.routing import HTTP, HTTP_PULSAR, HttpClients
from arneb.clustered.ports.vouched import MemberLook, VouchedSessions, Vouching, leads_now
from arneb.clustered.shards.part import Part
from arneb.data.writing import LARGE
from arneb.http.management.app import LARGER
from arneb.http.routing.routed import Routed, Target, Way, path_of
from arneb.http.routing.targets import management_target, pulsar_target
from arneb.http.server.prefixed import Prefixed
from arneb.http.shards.gathered import Gathered
from arneb.http.shards.gathered_pulsar import GatheredPulsar
from arneb.http.shards.paths import ROOT as SHARDS
from arneb.http.shards.paths import ShardPaths
from arneb.listening.access import has_named
from arneb.servers.handed_over import HandedOver
from arneb.settings.config import Config
from arneb_cluster.routing.division import EVERYTHING_ELSE
from arneb_cluster.routing.leaders import Leaders
from arneb_core.access.authority import Authority
from arneb_core.api.nodes.placement import Nobody
from arneb_pulsar.authentication.files import read_proofs
from arneb_pulsar.authorization.callers import Caller
from arneb_pulsar.services.clients.authenticator import Authenticator

TargetOf = Callable[[str], Target]


def _all_of(shard: str) -> TargetOf:
    """Return a function by which every request is for that shard."""
    target = Target(Way.ASKED, EVERYTHING_ELSE + shard)
    return lambda _: target


class HttpApps:
    """The applications of one node's HTTP ports."""

    def __init__(
        self,
        config: Config,
        leaders: Leaders,
        parts: Mapping[str, Part],
        clients: Mapping[str, HttpClients],
        authority: Authority,
        handed_of: Callable[[str], HandedOver],
        namespace_of: Callable[[str], str],
        figures: Callable[[], str],
        is_ready: Callable[[], bool],
    ) -> None:
        """``parts`` are the node's shards by name, the one that has the users first. ``clients``,
        by port, pass requests on to other nodes. ``handed_of`` returns the entry points of a
        namespace's broker here, ``namespace_of`` the namespace of a vhost, and ``figures`` the
        node's own metrics."""
        self._config = config
        self._leaders = leaders
        self._parts = parts
        self._clients = clients
        self._authority = authority
        self._handed_of = handed_of
        self._namespace_of = namespace_of
        self._figures = figures
        self._is_ready = is_ready
        self._first = next(iter(parts.values()))
        self._authenticator = Authenticator(
            read_proofs(config.pulsar.authentication),
            anonymous=config.access.authorization.anonymous_role,
        )

    def __repr__(self) -> str:
        return f"<HttpApps of shards {', '.join(self._parts)}>"

    # The management API

    def management(self) -> ASGIApp:
        """Return the application of the management API and its page."""
        own = self._own_management()
        divided = self._leaders.division.is_divided
        asked = self._management_of_shards(own) if divided else self._routed_management(own)
        app = OwnPage(asked, self._somebody_leads)
        prefix = self._config.http.path_prefix
        return Prefixed(app, prefix) if prefix else app

    def management_bodies(self) -> dict[str, int]:
        """Return the most bytes of a request's body, by path, where it may be larger than
        elsewhere."""
        bodies = {**dict.fromkeys(LARGE, self._config.data.body_bytes_max), **LARGER}
        if self._leaders.division.is_divided:
            bodies |= {
                f"{SHARDS}{name}{path}": size
                for name in self._parts
                for path, size in bodies.items()
            }
        if prefix := self._config.http.path_prefix:
            bodies |= {prefix + path: size for path, size in bodies.items()}
        return bodies

    def management_target(self, path: str) -> Target:
        """Return the target of a request to the management API."""
        return management_target(path, self._namespace_of)

    def _own_management(self) -> ASGIApp:
        """Return what this node answers itself: by its broker, or without one."""
        tables, membership = self._first.users.tables, self._first.handed.membership
        following = following_app(
            self._figures,
            self._is_ready,
            self._authenticator,
            self._authority,
            lambda: has_named(tables),
            self._is_super,
            membership,
            open_metrics=self._config.http.open_metrics,
        )
        leader = self._routed_management(leads_now)
        sessions = VouchedSessions(leader, self._somebody_leads, tables)
        return self._own_port(HTTP, MemberLook(sessions, membership, following))

    def _management_of_shards(self, own: ASGIApp) -> ASGIApp:
        """Return the application that asks all shards about what concerns all."""
        first, *others = self._parts
        leader = self._routed_management(own, _all_of(first))
        leaders_of: dict[str, ASGIApp] = {first: leader}
        for each in others:
            of_all = self._routed_management(own, _all_of(each))
            leaders_of[each] = Vouching(leader, lambda _: True, of_all)
        app: ASGIApp = Vouching(leader, self._is_others, self._routed_management(own))
        shard_of = self._leaders.division.shard_of
        app = Gathered(list(self._parts), shard_of, leaders_of.__getitem__, app)
        self._first.handed.everywhere = app
        return ShardPaths(leaders_of, app)

    def _routed_management(self, own: ASGIApp, target_of: TargetOf | None = None) -> Routed:
        target_of = target_of or self.management_target
        ask = self._clients[HTTP].ask
        return Routed(own, self._leaders, target_of, lambda addresses: addresses.http, ask)

    def _is_others(self, scope: Scope) -> bool:
        """Whether a request is about another shard than the first."""
        target = self.management_target(path_of(scope))
        shard = self._leaders.division.shard_of(target.namespace)
        return target.way is not Way.OWN and shard != self._first.name

    def _somebody_leads(self) -> bool:
        return not isinstance(self._leaders.of(EVERYTHING_ELSE), Nobody)

    # Pulsar's admin API

    def pulsar_admin(self) -> ASGIApp:
        """Return the application of Pulsar's admin API."""
        following = following_pulsar_app(
            self._figures, self._authenticator, self._is_super,
            open_metrics=self._config.http_pulsar.open_metrics,
        )  # fmt: skip
        own = self._own_port(HTTP_PULSAR, following)
        app = self._routed_pulsar(own, pulsar_target)
        if not self._leaders.division.is_divided:
            return app
        askers = {each: self._routed_pulsar(own, _all_of(each)) for each in self._parts}
        shard_of = self._leaders.division.shard_of
        return GatheredPulsar(list(self._parts), shard_of, askers.__getitem__, app)

    def _routed_pulsar(self, own: ASGIApp, target_of: TargetOf) -> Routed:
        ask = self._clients[HTTP_PULSAR].ask
        return Routed(own, self._leaders, target_of, lambda addresses: addresses.http_pulsar, ask)

    # Metrics

    def metrics(self) -> ASGIApp:
        """Return the application of the metrics' own port."""
        return self._own_port("metrics", following_metrics_app(self._figures))

    # Inside

    def _own_port(self, name: str, following: ASGIApp) -> ASGIApp:
        """Return what answers here at a port, with the metrics of all brokers of this node, if
        there can be several. ``following`` answers while there is no broker."""
        own = OwnPort(self._handed_of, name, following)
        if not self._leaders.division.is_divided:
            return own
        handed = {each.name: each.handed for each in self._parts.values()}
        return DividedMetrics(handed, name, own)

    def _is_super(self, caller: Caller) -> bool:
        """Whether the settings make the caller a super user; other grants only a leader knows."""
        authorization = self._config.access.authorization
        supers = authorization.super_user_roles
        return not authorization.enabled or (
            bool(caller.roles) and all(role in supers for role in caller.roles)
        )
