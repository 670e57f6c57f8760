"""Arguments: AMQP tables in the bodies of calls.

The rule: a value that no table can hold is refused before anything is done.
"""

from collections.abc import Mapping
from typing import Any

from arneb.http.management.requests.calls import Body, bad_request
from arneb_amqp.wire.json_fields import table_from_json
from arneb_amqp.wire.tables import Field


def arguments_in(body: Body, name: str = "arguments") -> dict[str, Field]:
    """Return the arguments in a body. Raises :class:`.Refused`."""
    return arguments_of(body.object(name))


def arguments_of(value: Mapping[str, Any]) -> dict[str, Field]:
    """Return a JSON object as a table. Raises :class:`.Refused`."""
    try:
        return table_from_json(value)
    except ValueError as error:
        raise bad_request(str(error)[:300]) from None
