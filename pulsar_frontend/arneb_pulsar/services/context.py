"""The broker context: what all connections of the server share, as data.

The rule: it is frozen and knows only the core, the settings, the clock and the registries. Code
that needs more than one of them takes the context as an argument; none of them takes it.
"""

import secrets
from dataclasses import dataclass, field
from typing import Final

import trio

from arneb_core.api.core import Core
from arneb_core.api.process.long_turns import LongTurns
from arneb_pulsar.authentication.files import read_proofs
from arneb_pulsar.authorization.authorizer import NO_USERS, Authorizer, Users
from arneb_pulsar.config import NO_AUTHORIZATION, AuthorizationConfig, PulsarConfig
from arneb_pulsar.names import TopicName, parse_topic
from arneb_pulsar.namespaces.fields import AUTO_UPDATES
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.schemas.compatibility import Strategy
from arneb_pulsar.services.clients.authenticator import Authenticator
from arneb_pulsar.services.clients.connections import Connections
from arneb_pulsar.services.clients.consumers import ConsumerRegistry
from arneb_pulsar.services.clients.message_observer import MessageObserverSlot
from arneb_pulsar.services.clients.producers import ProducerRegistry
from arneb_pulsar.services.clients.rights import Rights
from arneb_pulsar.services.clients.watchers import Watchers
from arneb_pulsar.services.clock import Clock
from arneb_pulsar.services.limits.dispatch_throttles import DispatchThrottles
from arneb_pulsar.services.limits.rates import Rates
from arneb_pulsar.services.limits.resource_groups import ResourceGroups
from arneb_pulsar.services.limits.subscribe_rates import SubscribeRates
from arneb_pulsar.services.limits.throttles import Throttles
from arneb_pulsar.services.limits.topic_limits import TopicLimits
from arneb_pulsar.services.namespaces.dynamic_settings import DynamicSettings
from arneb_pulsar.services.namespaces.ownership import Ownership
from arneb_pulsar.services.namespaces.registry import NamespaceRegistry
from arneb_pulsar.services.topics.compactor import Compactor
from arneb_pulsar.services.topics.deduplication import Deduplications
from arneb_pulsar.services.topics.schemas import SchemaRegistry
from arneb_pulsar.services.topics.topic_policies import TopicPolicies
from arneb_pulsar.services.topics.topics import Topics
from arneb_pulsar.services.transactions.coordinator import TransactionCoordinator

UNDEFINED: Final = (None, "UNDEFINED")
"""Policy values that ask for no strategy."""


@dataclass(slots=True)
class ServiceUrls:
    """Where clients that ask over HTTP find the broker; empty = nowhere. Set once a listener is
    known."""

    plain: str = ""
    tls: str = ""

    def __repr__(self) -> str:
        return f"<ServiceUrls {self.plain or '-'} {self.tls or '-'}>"


@dataclass(frozen=True, slots=True)
class BrokerContext:
    """The core, the settings and the registries of one broker."""

    core: Core
    config: PulsarConfig
    clock: Clock
    server_version: str
    authenticator: Authenticator
    namespaces: NamespaceRegistry
    topics: Topics
    topic_policies: TopicPolicies
    schemas: SchemaRegistry
    producers: ProducerRegistry
    consumers: ConsumerRegistry
    transactions: TransactionCoordinator
    deduplications: Deduplications
    throttles: Throttles
    resource_groups: ResourceGroups
    compactor: Compactor
    watchers: Watchers
    rights: Rights
    rates: Rates
    limits: TopicLimits
    subscribe_rates: SubscribeRates
    dispatch_throttles: DispatchThrottles
    settings: DynamicSettings
    urls: ServiceUrls
    ownership: Ownership
    connections: Connections = field(default_factory=Connections)
    long_turns: LongTurns = field(default_factory=LongTurns)
    message_observer: MessageObserverSlot = field(default_factory=MessageObserverSlot)
    message_shown: trio.Lock = field(default_factory=trio.Lock)
    """Held while a message is shown to an administrator, so that only one is in memory."""

    @property
    def authorizer(self) -> Authorizer:
        """Answers who may do what."""
        return self.rights.authorizer


def make_context(
    core: Core,
    config: PulsarConfig,
    clock: Clock | None = None,
    *,
    authorization: AuthorizationConfig = NO_AUTHORIZATION,
    users: Users = NO_USERS,
    server_version: str = "Arneb",
) -> BrokerContext:
    """Make the registries of one broker, from what is on disk. ``users``: AMQP's roles;
    ``server_version``: the broker's name and version, as clients are told them."""
    clock = clock or Clock()
    namespaces = NamespaceRegistry(core, config.namespaces, config.policies)
    producers = ProducerRegistry(core, secrets.token_hex(4))
    consumers, watchers = ConsumerRegistry(), Watchers(core)
    authorizer = Authorizer(authorization, namespaces, users)

    def deduplicates(topic: str) -> bool:
        """Whether the topic has deduplication on."""
        return bool(namespaces.policies(parse_topic(topic)).deduplication)

    def policies_of(topic: str) -> Policies:
        """Return the policies that hold for the topic."""
        return namespaces.policies(parse_topic(topic))

    def strategy_of(topic: TopicName) -> Strategy:
        """Return how a new schema must be compatible with a topic's present ones."""
        return _strategy(namespaces.policies(topic), config.schema_compatibility)

    rates, groups = Rates(core, producers, consumers, clock), ResourceGroups(core, clock)
    transactions = TransactionCoordinator(core, config, clock, namespaces.ended)
    context = BrokerContext(
        core=core,
        config=config,
        clock=clock,
        server_version=server_version,
        authenticator=Authenticator(
            read_proofs(config.authentication), clock, authorization.anonymous_role
        ),
        namespaces=namespaces,
        topics=Topics(core, namespaces),
        topic_policies=TopicPolicies(core, namespaces),
        schemas=SchemaRegistry(core, strategy_of, clock),
        producers=producers,
        consumers=consumers,
        transactions=transactions,
        deduplications=Deduplications(core, producers, deduplicates, clock, transactions),
        throttles=Throttles(producers, policies_of, clock, groups),
        resource_groups=groups,
        compactor=Compactor(core, clock),
        watchers=watchers,
        rights=Rights(authorizer, producers, consumers, watchers),
        limits=TopicLimits(namespaces, producers),
        subscribe_rates=SubscribeRates(namespaces, clock),
        rates=rates,
        settings=DynamicSettings(core, namespaces),
        dispatch_throttles=DispatchThrottles(consumers, namespaces, rates, clock),
        urls=ServiceUrls(config.advertised_url, config.advertised_tls_url),
        ownership=Ownership(producers, consumers),
    )
    _follow_changes(context)
    producers.sweep()
    namespaces.sweep()
    context.topic_policies.apply_all()
    return context


def _strategy(policies: Policies, otherwise: str) -> Strategy:
    """Return the policies' schema compatibility, or ``otherwise`` where they have none."""
    wanted = policies.schema_compatibility
    if wanted in UNDEFINED and policies.schema_auto_update is not None:
        wanted = AUTO_UPDATES[policies.schema_auto_update]
    return Strategy(otherwise if wanted in UNDEFINED else wanted)


def _follow_changes(context: BrokerContext) -> None:
    """Apply changed policies and resource groups to what is connected."""
    namespaces, throttles = context.namespaces, context.throttles
    namespaces.on_change(context.deduplications.refresh_all)
    namespaces.on_change(throttles.refresh_all)
    context.resource_groups.changed = throttles.refresh_all
    namespaces.on_change(context.dispatch_throttles.refresh_all)
