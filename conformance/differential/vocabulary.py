"""What programs are made of: the small fixed names, and valid and invalid arguments.

The rule: this is plain data. How often each value is drawn is decided in :mod:`.program`.
"""

from typing import Any, Final

QUEUES: Final = ("q0", "q1", "q2")
EXCHANGES: Final = ("e0", "e1", "e2", "e3")
CHANNELS: Final = 3
"""Channels 0 and 1 share the first connection; 2 has the second to itself."""

STANDARD_EXCHANGES: Final = (("e0", "direct"), ("e1", "fanout"), ("e2", "topic"), ("e3", "headers"))
KEYS: Final = ("a", "a.b", "b", "a.b.c", "", *QUEUES)
PATTERNS: Final = ("a", "a.*", "#", "*.b", "a.#", "", "b")
LONG: Final = 60_000_000
"""An expiry that never happens, in milliseconds."""

SHORT: Final = 120
"""An expiry that does happen, in milliseconds. It is long enough for a message to be stored first
if a consumer is waiting for it."""


DEAD_LETTERING: Final[tuple[dict[str, Any], ...]] = (
    {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q1"},
    {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q2"},
    {"x-dead-letter-exchange": "e0"},
)
LENGTHS: Final[tuple[dict[str, Any], ...]] = (
    {"x-max-length": 1},
    {"x-max-length": 2},
    {"x-max-length": 3},
    {"x-max-length": 0},
    {"x-max-length-bytes": 5},
    {"x-max-length-bytes": 8},
    {"x-max-length-bytes": 5003},
    {"x-max-length": 3, "x-max-length-bytes": 7},
)
OVERFLOWS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"x-overflow": "drop-head"},
    {"x-overflow": "reject-publish"},
    {"x-overflow": "reject-publish-dlx"},
)
QUEUE_ARGUMENTS: Final[tuple[tuple[dict[str, Any], ...], ...]] = (
    DEAD_LETTERING,
    ({"x-message-ttl": LONG}, {"x-message-ttl": 0}),
    LENGTHS,
    LENGTHS,
    ({"x-max-priority": 3}, {"x-max-priority": 1}, {"x-max-priority": 0}),
    ({"x-single-active-consumer": True}, {"x-single-active-consumer": False}),
    (
        {"x-expires": LONG},
        {"x-queue-mode": "lazy"},
        {"x-queue-type": "classic"},
        {"x-unknown": "anything"},
    ),
)
"""An argument of one kind can be combined with one of any other kind."""
HASTY_ARGUMENTS: Final[tuple[tuple[dict[str, Any], ...], ...]] = (
    DEAD_LETTERING,
    DEAD_LETTERING,
    ({"x-message-ttl": SHORT}, {"x-message-ttl": SHORT}, {"x-message-ttl": LONG}),
    LENGTHS,
    ({"x-max-priority": 3},),
)
DYING_ARGUMENTS: Final[tuple[tuple[dict[str, Any], ...], ...]] = (
    (
        *DEAD_LETTERING,
        {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q0"},
        {"x-dead-letter-exchange": ""},
        {"x-dead-letter-exchange": "e1"},
        {"x-dead-letter-exchange": "e2", "x-dead-letter-routing-key": "a.b"},
        {"x-dead-letter-exchange": "e3"},
        {"x-dead-letter-exchange": "e9"},
    ),
    LENGTHS,
    ({"x-message-ttl": 0}, {"x-message-ttl": LONG}),
    ({"x-max-priority": 3}, {"x-single-active-consumer": True}),
)
"""Nearly every queue gets an argument of the first kind."""
QUORUM_ARGUMENTS: Final[tuple[tuple[dict[str, Any], ...], ...]] = (
    DEAD_LETTERING,
    ({"x-delivery-limit": 0}, {"x-delivery-limit": 1}, {"x-delivery-limit": 2}),
    ({"x-max-length": 1}, {"x-max-length": 3}, {"x-max-length-bytes": 8}),
    ({"x-single-active-consumer": True},),
    ({"x-message-ttl": LONG}, {"x-expires": LONG}),
)
WRONG_QUEUE_ARGUMENTS: Final[tuple[dict[str, Any], ...]] = (
    {"x-message-ttl": "1"},
    {"x-message-ttl": -1},
    {"x-expires": 0},
    {"x-max-length": -3},
    {"x-max-length": "many"},
    {"x-overflow": "sideways"},
    {"x-max-priority": -1},
    {"x-dead-letter-exchange": 7},
    {"x-dead-letter-routing-key": "q1"},
    {"x-queue-type": "best"},
    {"x-queue-mode": "busy"},
)
CONSUMER_ARGUMENTS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {},
    {},
    {"x-priority": 5},
    {"x-priority": 5},
    {"x-priority": 5},
    {"x-priority": -1},
    {"x-priority": -1},
    {"x-priority": -1},
    {"x-priority": "high"},
)
ALTERNATES: Final[tuple[dict[str, Any], ...]] = (
    {"alternate-exchange": "e2"},
    {"alternate-exchange": "e1"},
    {"alternate-exchange": "amq.fanout"},
    {"alternate-exchange": "e9"},
)
EXCHANGE_ARGUMENTS: Final[tuple[dict[str, Any], ...]] = (
    *ALTERNATES,
    {"alternate-exchange": 7},
)
STREAM_ARGUMENTS: Final[tuple[tuple[dict[str, Any], ...], ...]] = (
    ({"x-max-length-bytes": 1_000_000}, {"x-max-length-bytes": -1}),
    ({"x-max-age": "1h"}, {"x-max-age": "5x"}),
    ({"x-stream-max-segment-size-bytes": 1_000_000},),
    ({"x-max-length": 3}, {"x-message-ttl": LONG}, {"x-single-active-consumer": True}),
)
STREAM_OFFSETS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"x-stream-offset": "first"},
    {"x-stream-offset": "next"},
    {"x-stream-offset": 0},
    {"x-stream-offset": 1},
    {"x-stream-offset": 3},
    {"x-stream-offset": "1h"},
    {"x-stream-offset": "sideways"},
)
"""Not ``last``: RabbitMQ would start with the whole chunk that contains the last message."""

HEADERS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"h": 1},
    {"h": 1, "k": "v"},
    {"k": "v", "n": None, "t": {"deep": [1, 2, "three"]}},
    {"CC": ["q1", "a"]},
    {"BCC": ["q2"], "h": 2},
    {"CC": "q1"},
    {"x-k": "v", "h": True},
    {"h": 1.0, "k": "v"},
)
FORGED: Final[tuple[dict[str, Any], ...]] = (
    {"x-death": [{"queue": "q1", "reason": "expired", "count": 7}]},
    {"x-death": [{"queue": "q2", "reason": "rejected", "count": 1, "more": "of it"}]},
    {"x-death": [{"reason": "maxlen", "queue": "q0"}, {"reason": "maxlen", "queue": "q0"}]},
    {
        "x-death": [
            {"queue": "q0", "reason": "expired", "count": 2},
            {"queue": "q1", "reason": "rejected", "count": 3},
            {"queue": "q1", "reason": "maxlen", "count": 1},
        ]
    },
    {"x-death": "long ago", "x-first-death-queue": "q9"},
    {"x-death": [], "h": 1},
    {"x-first-death-queue": "q9", "x-first-death-reason": 7, "CC": ["q2"]},
)
"""Headers that claim deaths of a message that never died."""
ASKS: Final[dict[str, Any]] = {"reply_to": "amq.rabbitmq.reply-to"}
"""The receiver of such a message can answer to ``asker``."""

HEADER_BINDINGS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"x-match": "all", "h": 1},
    {"x-match": "any", "h": 1, "k": "v"},
    {"x-match": "all", "h": 1, "k": None},
    {"h": 1, "k": "v"},
    {"x-match": "some", "h": 1},
    {"x-match": "any-with-x", "x-k": "v"},
    {"x-match": "all-with-x", "x-k": "v", "h": True},
    {"x-match": "any", "x-k": "v", "h": 1.0},
)
