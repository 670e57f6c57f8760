"""Findings: what a check found wrong, one line each.

The rule: a kind of damage has one name, which people can look up and tests can ask for.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

FINDINGS_MAX: Final = 1_000
"""Nobody reads more, and a ruined store would yield one for every row."""


class FindingKind(Enum):
    """The kinds of damage; the values are what ``arneb check`` prints."""

    PAGE = "bad-page"
    UNREADABLE = "unreadable-table"
    META = "bad-meta"
    CATALOG_KEY = "bad-catalog-key"
    CATALOG_RECORD = "bad-catalog-record"
    TOPIC_ID = "bad-topic-id"
    SUBSCRIPTION_ID = "bad-subscription-id"
    SUBSCRIPTION_ORPHAN = "subscription-without-topic"
    LEDGER_KEY = "bad-ledger-key"
    LEDGER_RECORD = "bad-ledger-record"
    LEDGER_ORPHAN = "ledger-without-topic"
    LEDGER_GAP = "ledgers-not-contiguous"
    LEDGER_OPEN = "open-ledger-not-last"
    LEDGER_COUNTS = "ledger-counts-wrong"
    LEDGER_OFFSET = "ledger-offset-wrong"
    BLOCK_KEY = "bad-block-key"
    BLOCK_CORRUPT = "block-corrupt"
    BLOCK_PLACE = "block-under-wrong-key"
    BLOCK_GAP = "entries-not-dense"
    BLOCK_ORPHAN = "block-without-ledger"
    BODY_KEY = "bad-body-key"
    BODY_CORRUPT = "body-corrupt"
    BODY_MISSING = "reference-without-body"
    BODY_COUNT = "references-counted-wrong"
    BODY_ORPHAN = "body-without-reference"
    JOURNAL = "journal-damaged"
    JOURNAL_CUT_OFF = "journal-cut-off"
    JOURNAL_KEPT = "journal-was-damaged"
    GAP_ROW = "bad-gap"
    GAP = "entries-lost"
    ENTRY_HEADER = "bad-entry-header"
    CURSOR_KEY = "bad-cursor-key"
    CURSOR_RECORD = "bad-cursor-record"
    CURSOR_ORPHAN = "cursor-without-subscription"
    CURSOR_MISSING = "subscription-without-cursor"
    CURSOR_PLACE = "cursor-outside-log"
    HOLES_CORRUPT = "bad-ack-chunk"
    HOLES_PLACE = "acks-outside-backlog"
    MASK_CORRUPT = "bad-batch-mask"
    MASK_PLACE = "mask-outside-backlog"
    MASK_BITS = "mask-beyond-batch"
    MASK_ACKED = "mask-of-acked-entry"
    DELAYED_KEY = "bad-delayed-key"
    DELAYED_ORPHAN = "delayed-without-topic"
    DELAYED_ROW = "bad-delayed-bucket"
    DELAYED_THROUGH = "delayed-index-without-end"
    DELAYED_PLACE = "delayed-index-wrong"
    DELAYED_MISSING = "delayed-entry-not-in-index"
    FRONTEND = "bad-frontend-record"
    """A frontend's record that the frontend cannot read."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    kind: FindingKind
    where: str
    detail: str

    @property
    def is_doubt(self) -> bool:
        """It need not be damage: a power cut can leave it, without losing anything promised."""
        return self.kind is FindingKind.JOURNAL_CUT_OFF

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.where}: {self.detail}"


class Findings:
    """A list of findings that stops growing at :data:`FINDINGS_MAX`."""

    def __init__(self) -> None:
        self._found: list[Finding] = []

    def __repr__(self) -> str:
        return f"<Findings {len(self._found)}>"

    @property
    def is_full(self) -> bool:
        return len(self._found) >= FINDINGS_MAX

    def add(self, kind: FindingKind, where: str, detail: object) -> None:
        """Add a finding."""
        if not self.is_full:
            self._found.append(Finding(kind, where, str(detail)))

    def since(self, number: int) -> list[Finding]:
        """Return the findings after the first ``number``."""
        return self._found[number:]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._found)
