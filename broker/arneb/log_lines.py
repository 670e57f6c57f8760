"""Log lines: what ``arneb serve`` writes on standard error.

The rule: names from outside stand in them as :func:`.visible` has them, so nobody who names a topic
writes on the operator's terminal.
"""

import logging
from typing import Final

from arneb.visible import visible

LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
"""Of warnings and errors."""


class VisibleFormatter(logging.Formatter):
    """The lines of a traceback stay lines."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(visible, super().format(record).split("\n")))


def log_to_standard_error() -> None:
    """From now on, for the whole process."""
    handler = logging.StreamHandler()
    handler.setFormatter(VisibleFormatter(LOG_FORMAT))
    logging.basicConfig(handlers=[handler])
