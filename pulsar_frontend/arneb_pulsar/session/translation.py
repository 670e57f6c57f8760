"""Entries of other origins, as Pulsar consumers get them.

The rule: a run with such entries is translated when it is written, one turn's part at a time. The
consumer sees no difference: what waits for its socket has the same order, and the same epoch, as if
it had been translated when it was delivered.
"""

from dataclasses import replace
from operator import itemgetter
from typing import Final

from arneb_core.api.entries.codec import Message, codecs
from arneb_core.api.entries.entry import HEADER_BYTES, Origin, read_header
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_pulsar.codec import encode_messages
from arneb_pulsar.packing.broker_metadata import with_broker_metadata
from arneb_pulsar.packing.deliveries import MessageFrames
from arneb_pulsar.wire.checksum import metadata_bytes, without_checksum

ORIGIN: Final = itemgetter(1)
"""The origin in an entry's header; see :mod:`arneb_core.api.entries.entry`."""

ONLY_PULSAR: Final = {int(Origin.PULSAR)}

UNREADABLE: Final = "arneb-unreadable"
"""The property that says why an entry could not be translated; the message's payload is then the
entry's body as stored. It must be delivered even so: a message is never skipped."""


MESSAGE_UNITS: Final = 32
"""The least cost of one message, in about microseconds."""

METADATA_BYTES_A_UNIT: Final = 8
"""Bytes of properties written in a microsecond, from nested tables too."""


def is_foreign(run: Deliveries) -> bool:
    """Return whether some entry of ``run`` must be translated."""
    return set(map(ORIGIN, run.entries)) != ONLY_PULSAR


class TranslatedRun:
    """The MESSAGE frames of a run that has entries of other origins.

    Invariant: the first ``_at`` entries are translated; ``waiting_bytes`` is the size of the rest.
    """

    __slots__ = ("_at", "_checked", "_frames", "_run", "waiting_bytes")

    def __init__(self, run: Deliveries, frames: MessageFrames, *, checked: bool) -> None:
        self._run = run
        self._frames = frames
        self._checked = checked
        self._at = 0
        self.waiting_bytes = sum(map(len, run.entries))

    def __repr__(self) -> str:
        return f"<TranslatedRun {self._at} of {len(self._run.entries)}>"

    @property
    def has_more(self) -> bool:
        """Some entry is not translated yet."""
        return self._at < len(self._run.entries)

    def translate_some(self, units: int) -> tuple[bytes, int]:
        """Return the next frames, at least one, and what is left of ``units``."""
        run, start = self._run, self._at
        entries: list[bytes] = []
        while self.has_more and (units > 0 or not entries):
            entry = run.entries[self._at]
            self._at += 1
            self.waiting_bytes -= len(entry)
            units -= 1
            if entry[1] != Origin.PULSAR:
                body = translate(entry)
                entry = entry[:HEADER_BYTES] + body
                units -= MESSAGE_UNITS + metadata_bytes(body) // METADATA_BYTES_A_UNIT
            entries.append(entry)
        offsets = None if run.offsets is None else run.offsets[start : self._at]
        positions = run.positions[start : self._at]
        part = replace(run, positions=positions, entries=entries, offsets=offsets)
        if not self._checked:
            part = without_checksums(part)
        return self._frames.pack(part if offsets is None else with_broker_metadata(part)), units


def without_checksums(run: Deliveries) -> Deliveries:
    """Return ``run`` for a client that reads no checksums."""
    entries = [
        entry[:HEADER_BYTES] + without_checksum(entry[HEADER_BYTES:]) for entry in run.entries
    ]
    return replace(run, entries=entries)


def translate(entry: bytes) -> bytes:
    """Return headers and payload for an entry of another origin. Never fails."""
    try:
        messages = codecs()[Origin(entry[1])].decode(entry)
        return encode_messages(messages)
    except (ValueError, KeyError) as error:
        header = read_header(entry)
        reason = f"{type(error).__name__}: {error}"
        unreadable = Message(
            entry[HEADER_BYTES:],
            properties={UNREADABLE: reason},
            publish_time_ms=header.publish_time_ms,
        )
        return encode_messages([unreadable])
