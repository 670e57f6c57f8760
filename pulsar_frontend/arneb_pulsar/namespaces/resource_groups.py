"""Resource groups: rates that the topics of several namespaces share.

The rule: pure values. What a document leaves out stays as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from arneb_pulsar.namespaces.coercion import is_nothing
from arneb_pulsar.namespaces.fields import read_number, read_table
from arneb_pulsar.namespaces.rates import RATE_MAX, UNLIMITED, PublishRate

MESSAGES: Final = "publishRateInMsgs"
BYTES: Final = "publishRateInBytes"
RATES: Final = (MESSAGES, BYTES, "dispatchRateInMsgs", "dispatchRateInBytes")
"""The fields of a group. As in Pulsar 4.0, dispatch rates are reported and not enforced."""


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """One group, with the fields that are set."""

    rates: Mapping[str, int] = field(default_factory=dict)

    def changed(self, document: Any) -> Self:
        """Return the group changed by a document. Raises :class:`ValueError`."""
        table = read_table(document)
        given = {
            name: min(read_number(table, name, UNLIMITED), RATE_MAX)
            for name in RATES
            if not is_nothing(table.get(name))
        }
        return type(self)({**self.rates, **given})

    @property
    def document(self) -> dict[str, int]:
        """The document that :meth:`changed` reads."""
        return {name: self.rates.get(name, UNLIMITED) for name in RATES}

    @property
    def publish_rate(self) -> PublishRate:
        """What all producers of its topics may send together."""
        return PublishRate(*(self.rates.get(name, UNLIMITED) for name in (MESSAGES, BYTES)))
