"""Interceptors: code of an application, or of a tracing library, that sees each message on its way.

The rule: an interceptor's exception is logged, and the message continues.
"""

import logging
from collections.abc import Callable
from typing import Any, ParamSpec

from arneb_pulsar.client.ids import MessageId
from arneb_pulsar.client.messages import OutgoingMessage

LOG = logging.getLogger("arneb_pulsar.client")

P = ParamSpec("P")


class ProducerInterceptor:
    """Sees what a producer sends. Each method does nothing unless it is overridden."""

    def before_send(self, topic: str, message: OutgoingMessage) -> None:
        """Called before a message is sent; may change it."""

    def after_send(
        self,
        topic: str,
        message: OutgoingMessage,
        found: MessageId | None,
        error: Exception | None,
    ) -> None:
        """Called once a message is stored or has failed."""


class ConsumerInterceptor:
    """Sees the messages that an application receives and acknowledges, the latter perhaps only as a
    ``MessageId``. Each method does nothing unless it is overridden."""

    def before_receive(self, topic: str, message: Any) -> None:
        """Called before the application receives a message."""

    def on_acknowledge(self, topic: str, which: Any, *, cumulative: bool) -> None:
        """Called when the application acknowledges a message."""

    def on_negative_acknowledge(self, topic: str, which: Any) -> None:
        """Called when the application negatively acknowledges a message."""


def guarded(call: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call an application's own code, whatever it raises."""
    try:
        call(*args, **kwargs)
    except Exception:  # application code: its errors must not affect others
        LOG.exception("%r raised", call)
