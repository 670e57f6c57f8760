"""Damaged messages: runs with some bad body, sorted message by message.

The rule: pure. Good messages are stored in their order; each bad one is refused in its turn, and
affects no other.
"""

from collections.abc import Mapping

from arneb_core.api.entries.entry import messages_in
from arneb_pulsar.packing.entries import is_delayed, make_entry
from arneb_pulsar.session.errors import Failure
from arneb_pulsar.session.interface.effects import AppendRun
from arneb_pulsar.session.interface.pending_sends import PendingSends
from arneb_pulsar.wire.errors import ChecksumMismatch, PayloadError
from arneb_pulsar.wire.proto import pulsar_pb2 as pb


def sort_damaged(
    run: AppendRun, publish_time_ms: int
) -> list[tuple[PendingSends, list[PendingSends]]]:
    """Make ``run`` hold only its good messages.

    Return the sends of each producer with their replacements: one for each stretch of good
    messages and one, answered, for each bad message.
    """
    bodies = iter(run.bodies)
    replaced: list[tuple[PendingSends, list[PendingSends]]] = []
    run.entries = []
    for sent in run.sends:
        parts: list[PendingSends] = []
        for index, sequence_id in enumerate(sent.sequences):
            made = _entry_of(next(bodies), publish_time_ms)
            if isinstance(made, Failure):
                parts.append(PendingSends(sent.producer_id, [sequence_id]))
                parts[-1].refused(made)
                continue
            run.entries.append(made)
            if not parts or parts[-1].frames is not None:
                parts.append(PendingSends(sent.producer_id, key=sent.key))
            _add_good(sent, index, parts[-1])
        replaced.append((sent, parts))
    run.sends = [part for _, parts in replaced for part in parts if part.frames is None]
    run.messages = sum(map(messages_in, run.entries))
    run.delayed = any(map(is_delayed, run.entries))
    return replaced


def sort_refused(
    run: AppendRun, refused: Mapping[int, Failure]
) -> list[tuple[PendingSends, list[PendingSends]]]:
    """As :func:`sort_damaged`, for a run with entries made, of which those at the indexes in
    ``refused`` are refused."""
    replaced: list[tuple[PendingSends, list[PendingSends]]] = []
    entries, start = run.entries, 0
    for sent in run.sends:
        parts: list[PendingSends] = []
        for index, sequence_id in enumerate(sent.sequences):
            if (failure := refused.get(start + index)) is not None:
                parts.append(PendingSends(sent.producer_id, [sequence_id]))
                parts[-1].refused(failure)
                continue
            if not parts or parts[-1].frames is not None:
                parts.append(PendingSends(sent.producer_id, key=sent.key))
            _add_good(sent, index, parts[-1])
        start += len(sent.sequences)
        replaced.append((sent, parts))
    run.entries = [entry for index, entry in enumerate(entries) if index not in refused]
    run.sends = [part for _, parts in replaced for part in parts if part.frames is None]
    run.messages = sum(map(messages_in, run.entries))
    run.delayed = any(map(is_delayed, run.entries))
    return replaced


def _add_good(sent: PendingSends, index: int, part: PendingSends) -> None:
    """Add one good message of ``sent`` to ``part``."""
    at = len(part.sequences)
    if index in sent.highest:
        part.highest[at] = sent.highest[index]
    if index in sent.chunks:
        part.chunks.add(at)
    part.sequences.append(sent.sequences[index])


def _entry_of(body: bytes, publish_time_ms: int) -> bytes | Failure:
    """Make the entry of one body, or return why there is none."""
    try:
        return make_entry(body, publish_time_ms)
    except ChecksumMismatch:
        return Failure(pb.ChecksumError, "Checksum failed on the broker")
    except PayloadError as error:
        return Failure(pb.NotAllowedError, f"Unreadable message: {error}")
