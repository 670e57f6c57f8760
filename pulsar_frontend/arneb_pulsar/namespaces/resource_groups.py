"""Resource groups: rates that the topics of several namespaces share.

The rule: pure values. What a document does not say of a group stays as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from arneb_pulsar.namespaces.fields import read_number, read_table
from arneb_pulsar.namespaces.rates import RATE_MAX, UNLIMITED, PublishRate

FIELDS: Final[Mapping[str, str]] = {
    "publishRateInMsgs": "publish_messages",
    "publishRateInBytes": "publish_bytes",
    "dispatchRateInMsgs": "dispatch_messages",
    "dispatchRateInBytes": "dispatch_bytes",
}


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """One group; None = nothing is said, and no rate is kept."""

    publish_messages: int | None = None
    publish_bytes: int | None = None
    dispatch_messages: int | None = None
    """Kept and told; as in Pulsar 4.0, what goes out is not bounded by a group."""
    dispatch_bytes: int | None = None

    def changed(self, document: Any) -> Self:
        """With what a document says. Raises :class:`ValueError`."""
        table = read_table(document)
        said = {
            field: min(read_number(table, name, UNLIMITED), RATE_MAX)
            for name, field in FIELDS.items()
            if table.get(name) is not None
        }
        return replace(self, **said)

    @property
    def document(self) -> dict[str, int | None]:
        """What :meth:`changed` reads."""
        return {name: getattr(self, field) for name, field in FIELDS.items()}

    @property
    def publish_rate(self) -> PublishRate:
        """What all producers of its topics may send together."""
        messages, size = self.publish_messages, self.publish_bytes
        return PublishRate(
            UNLIMITED if messages is None else messages, UNLIMITED if size is None else size
        )
