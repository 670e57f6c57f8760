"""Effective options: a queue's arguments and policy combined.

The rule: the row of the policy's key says which of the two wins, or whether the lesser counts.
"""

from collections.abc import Mapping
from typing import Any, Final

from arneb_amqp.topology.policies.keys import POLICY_KEYS, Wins
from arneb_amqp.topology.queues.options import QueueOptions, asked_for, queue_type
from arneb_amqp.wire.tables import Table

NOTHING_ASKED: Final = QueueOptions()
"""One value for all queues without options, which most are."""


def effective_options(arguments: Table, definition: Mapping[str, Any]) -> QueueOptions:
    """Return the options of valid ``arguments`` and the ``definition`` of the applied policy."""
    if not (arguments or definition):
        return NOTHING_ASKED
    asked, kind = asked_for(arguments), queue_type(arguments)
    for name, value in definition.items():
        row = POLICY_KEYS.get(name)
        wins = None if row is None else row.wins.get(kind)
        if row is None or wins is None:
            continue
        wanted: Any = row.read(value)
        if row.option not in asked or wins is Wins.POLICY:
            asked[row.option] = wanted
        elif wins is Wins.LEAST:
            asked[row.option] = min(asked[row.option], wanted)
    return QueueOptions(**asked)
