"""Errors of the data API: a status, a code for programs and a line for people.

The rule: every error of the core has its row in one table, and only a :class:`DataError` leaves a
handler.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from arneb_core.api.errors import (
    CommitFailed,
    CoreError,
    NotAllowed,
    StoreFailed,
    StoreFull,
    SubscriptionFenced,
    TopicFenced,
    TopicNotFound,
)

RETRY_AFTER_S: Final = 1
"""When a client may try again."""


class DataError(Exception):
    """A request that was not carried out."""

    def __init__(self, status: int, code: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.code = code

    @property
    def document(self) -> dict[str, str]:
        """Return the error as sent to the client."""
        return {"code": self.code, "reason": str(self)}


def bad_request(reason: str) -> DataError:
    """Return the error for an unexpected value."""
    return DataError(400, "bad_request", reason)


_OF_THE_CORE: Final[tuple[tuple[type[CoreError], int, str], ...]] = (
    (TopicNotFound, 404, "topic_not_found"),
    (StoreFull, 507, "store_full"),
    (TopicFenced, 503, "busy"),
    (SubscriptionFenced, 503, "busy"),
    (StoreFailed, 503, "commit_failed"),
    (CommitFailed, 503, "commit_failed"),
    (NotAllowed, 409, "not_allowed"),
    (CoreError, 409, "not_allowed"),
)
"""Status and code of each error; the first row that fits counts."""


@contextmanager
def in_words() -> Iterator[None]:
    """Turn errors of the core into this API's."""
    try:
        yield
    except CoreError as error:
        for kind, status, code in _OF_THE_CORE:
            if isinstance(error, kind):
                raise DataError(status, code, str(error)) from error
        raise
