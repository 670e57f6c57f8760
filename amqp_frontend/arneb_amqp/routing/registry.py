"""The exchange types by name."""

from collections.abc import Mapping
from typing import Final

from arneb_amqp.routing.consistent_hash import ConsistentHash
from arneb_amqp.routing.delayed import DELAYED_MESSAGE, DelayedMessage
from arneb_amqp.routing.direct import Direct
from arneb_amqp.routing.exchange_type import ExchangeType
from arneb_amqp.routing.fanout import Fanout
from arneb_amqp.routing.headers import HeadersType
from arneb_amqp.routing.topic import Topic

_AT_ONCE: Final[Mapping[str, ExchangeType]] = {
    kind.name: kind for kind in (Direct(), Fanout(), Topic(), HeadersType(), ConsistentHash())
}

EXCHANGE_TYPES: Final[Mapping[str, ExchangeType]] = {
    **_AT_ONCE,
    DELAYED_MESSAGE: DelayedMessage(_AT_ONCE),
}
