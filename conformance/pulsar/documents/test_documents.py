"""Every document of a busy topic has the same fields on Arneb as on Apache Pulsar, with figures of
the same sign."""

import re
from pathlib import Path
from typing import Any, Final

import anyio
from conformance.brokers.arneb import Arneb
from conformance.brokers.pulsar_standalone import PulsarStandalone
from conformance.pulsar.admin import Admin
from conformance.pulsar.conftest import TRANSACTING
from conformance.pulsar.documents.comparison import ABSENT, Difference, differences
from conformance.pulsar.documents.playing import documents

LEDGERS: Final = "a cursor is a row of the store, and has no ledger"
NO_MARKERS: Final = "Pulsar acknowledges the markers of transactions, which Arneb does not have"
INDEX: Final = "the topic has one index of delayed messages, not counted by subscription"
LATELY: Final = "depends on whether there is something to deliver at this moment"
LAST: Final = "Pulsar's sums over partitions have the last partition's number"

EXPLAINED: Final = {
    r"cursors\.\w+\.(cursorLedger|cursorLedgerLastEntry|lastLedgerSwitchTimestamp)": LEDGERS,
    r"cursors\.\w+\.(messagesConsumedCounter|totalNonContiguousDeleted.*)": NO_MARKERS,
    r"individuallyDeletedMessages": NO_MARKERS,
    r"nonContiguousDeletedMessagesRanges(SerializedSize)?": NO_MARKERS,
    r"delayedMessageIndexSizeInBytes": INDEX,
    r"cursors\.\w+\.(waitingReadOp|subscriptionHavePendingRead)|waitingCursorsCount": LATELY,
    r"drainingHashesClearedTotal|subscriptions\.shared\.msgInReplay": LATELY,
    r"partitioned-stats\.(ongoing|aborted|committed)TxnCount": LAST,
}
"""Reasons for known differences, by a pattern for the end of the path."""


def explained(found: Difference) -> bool:
    """Whether the difference is known. The client chooses the partition of a message without a key,
    so for single partitions only the presence of fields is compared."""
    if ".partitions." in found.path and ABSENT not in found:
        return True
    return any(re.search(f"({each})$", found.path) for each in EXPLAINED)


def played(url: str, admin_url: str) -> Any:
    return anyio.run(documents, url, Admin(admin_url), "1", backend="trio")


def test_documents_have_the_same_fields(tmp_path: Path) -> None:
    broker = Arneb(
        tmp_path / "arneb",
        listeners=["pulsar", "http-pulsar"],
        settings="[pulsar]\nstatistics_s = 1\n",
    ).start()
    try:
        arneb = played(broker.pulsar_url, broker.admin_url)
    finally:
        broker.stop()
    settings = TRANSACTING | {"statsUpdateFrequencyInSecs": 1, "statsUpdateInitialDelayInSecs": 1}
    apache = PulsarStandalone(tmp_path / "pulsar", **settings).start()
    try:
        pulsar = played(apache.pulsar_url, apache.http_url)
    finally:
        apache.stop()
    found = [each for each in differences(pulsar, arneb) if not explained(each)]
    assert not found, "\n".join(f"{path}: {one} | {other}" for path, one, other in found)
    keys = [
        {each["consumerName"]: each["keyHashRangeArrays"] for each in consumers}
        for consumers in (
            shown["plain stats"]["subscriptions"]["keys"]["consumers"] for shown in (pulsar, arneb)
        )
    ]
    assert keys[0] == keys[1], "the same keys go to consumers of the same names"
