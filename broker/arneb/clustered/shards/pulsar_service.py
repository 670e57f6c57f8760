"""The Pulsar service of a cluster: how a node connects to it, and whether its settings are safe.

The rule: settings that could lose or duplicate confirmed messages are refused at the start, all in
one line that says what to set. A setting that Pulsar does not report is printed as a requirement.
If the service does not answer, the node waits, because it may be starting too.
"""

import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import trio

from arneb.settings.cluster import ClusterPulsarTable, ClusterTable
from arneb.settings.tls import NO_FILE
from arneb_cluster.protocol.fitness import judge
from arneb_cluster.protocol.requirements import advice, unmet
from arneb_cluster.pulsar.log_topic import LogTopic
from arneb_cluster.replica import UNFOUNDED, Replica
from arneb_cluster.routing.internal_protocol import Secret
from arneb_cluster.routing.internal_settings import NO_SECRET, InternalSettings, tls_of
from arneb_core.api.errors import StoreUnusable
from arneb_pulsar.client import ClientOptions, TlsOptions
from arneb_pulsar.client.admin import Admin, administer
from arneb_pulsar.client.connection.authentication import (
    Authentication,
    NoAuthentication,
    TlsAuthentication,
    TokenAuthentication,
)
from arneb_pulsar.client.errors import AdminError, ConnectError, PulsarError, TimedOut

RETRY_S: Final = 1.0
"""The pause before asking a service again that did not answer."""

BACKOFF_CAP_S: Final = 1.0
"""The longest pause between attempts to reconnect to a broker. A leader's lease lasts two of
them."""

SERVER_ERROR: Final = 500

DEMAND: Final = (
    "cluster: bookies must flush before they answer (journalSyncData=true), which Pulsar cannot be "
    "asked"
)

logger = logging.getLogger(__name__)

T = TypeVar("T")


def client_options(table: ClusterPulsarTable) -> ClientOptions:
    """Return the options with which a node connects to the service."""
    return ClientOptions(
        authentication=_authentication(table),
        tls=_tls(table),
        backoff_cap_s=BACKOFF_CAP_S,
        statistics_interval_s=0,
    )


def internal_settings(table: ClusterTable) -> InternalSettings:
    """Return the settings by which nodes authenticate each other. Raises :class:`StoreUnusable` for
    unusable files."""
    internal = table.internal
    try:
        secret = NO_SECRET
        if internal.secret_file != NO_FILE:
            secret = Secret(internal.secret_file.read_bytes().strip())
        tls = None
        if internal.is_secured:
            tls = tls_of(internal.certificate, internal.key, internal.authority)
        return InternalSettings(table.node, secret, tls)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise StoreUnusable(f"cluster.internal: {error}") from error


async def check_service(table: ClusterPulsarTable) -> list[str]:
    """Check that the namespace has the settings it must have; return advice on others. Raises
    :class:`StoreUnusable` with the settings to change; waits while the service does not answer."""
    tls = _tls(table)
    async with administer(table.admin_url, _authentication(table), tls) as admin:
        policies = await _answered(admin, lambda: admin.policies(table.namespace), table)
        broker = await _answered(admin, admin.broker_settings, table)
    if found := "; ".join(str(each) for each in unmet(policies, broker)):
        raise StoreUnusable(f"cluster: namespace {table.namespace} at {table.admin_url}: {found}")
    return [f"cluster: {each}" for each in advice(broker)]


async def check_directory(topic: LogTopic, replica: Replica) -> None:
    """Check that the directory and the log topic belong together. Raises :class:`StoreUnusable`."""
    has_topics = replica.has_topics
    applied = None if replica.applied == UNFOUNDED else replica.applied
    path = replica.store.path
    if applied is None and has_topics:
        raise StoreUnusable(
            f"cluster: {path} holds messages of a broker that was alone; a node begins with an "
            "empty directory, or see `arneb ctl cluster re-found`"
        )
    while True:
        try:
            last, history = await topic.hold(), await topic.history()
            break
        except PulsarError as error:
            logger.warning("%r: %s", topic, error)
            await trio.sleep(RETRY_S)
    if unfit := judge(applied, history, last, holds_something=has_topics):
        raise StoreUnusable(f"cluster: {path} and {topic}: {unfit.value}")


async def _answered(admin: Admin, ask: Callable[[], Awaitable[T]], table: ClusterPulsarTable) -> T:
    while True:
        try:
            return await ask()
        except AdminError as error:
            if error.status < SERVER_ERROR:
                text = f"cluster: {table.admin_url} refuses to say how namespace {table.namespace}"
                raise StoreUnusable(f"{text} is set: {error}") from error
            logger.warning("waiting for %r: %s", admin, error)
        except (ConnectError, TimedOut) as error:
            logger.warning("waiting for %r: %s", admin, error)
        await trio.sleep(RETRY_S)


def _authentication(table: ClusterPulsarTable) -> Authentication:
    if table.token_file != NO_FILE:
        return TokenAuthentication(table.token_file)
    return TlsAuthentication() if table.certificate != NO_FILE else NoAuthentication()


def _tls(table: ClusterPulsarTable) -> TlsOptions:
    def path_of(file: object) -> str | None:
        return None if file == NO_FILE else str(file)

    return TlsOptions(
        trust_certificates=path_of(table.trust_certificates),
        certificate=path_of(table.certificate),
        key=path_of(table.key),
    )
