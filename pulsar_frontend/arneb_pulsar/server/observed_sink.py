"""Observed sinks: show the observer each message that a consumer gets.

The rule: a consumer has such a sink if there was an observer when it was attached; deliveries
through it are not changed.
"""

from arneb_core.api.entries.ledger_ids import LedgerIds
from arneb_core.api.subscriptions.consumer import Sink
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_pulsar.services.clients.connections import ClientConnection
from arneb_pulsar.services.clients.message_observer import MessageObserver, SeenClient


class ObservedSink:
    """Passes a consumer's deliveries on (:class:`arneb_core.api.subscriptions.consumer.Sink`)."""

    __slots__ = ("_connection", "_ids", "_observer", "_sink", "_subscription", "_topic")

    def __init__(
        self,
        sink: Sink,
        observer: MessageObserver,
        connection: ClientConnection,
        topic: str,
        subscription: str,
        ids: LedgerIds,
    ) -> None:
        self._sink = sink
        self._observer = observer
        self._connection = connection
        self._topic = topic
        self._subscription = subscription
        self._ids = ids

    def __repr__(self) -> str:
        return f"<ObservedSink {self._sink!r}>"

    def deliver(self, run: Deliveries) -> None:
        """Show the run to the observer, and pass it on."""
        client = client_of(self._connection)
        self._observer.delivered(client, self._topic, self._subscription, run, self._ids)
        self._sink.deliver(run)

    def active_changed(self, active: bool) -> None:
        """Pass it on."""
        self._sink.active_changed(active)

    def closed_by_core(self, reason: str) -> None:
        """Pass it on."""
        self._sink.closed_by_core(reason)


def client_of(connection: ClientConnection) -> SeenClient:
    """Return the client that an observer is told of."""
    return SeenClient(connection.address, connection.caller.role or "")
