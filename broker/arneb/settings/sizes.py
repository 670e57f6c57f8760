"""Sizes: amounts of memory and disk as RabbitMQ writes them.

The rule: as in RabbitMQ, ``kB``, ``MB``, ``GB`` are powers of 1,000; ``KiB``, ``MiB``, ``GiB`` and
single letters are powers of 1,024.
"""

import re
from decimal import Decimal
from typing import Final

_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMgGtTpP]?)(i?)([bB]?)")
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def parse_bytes(text: str) -> int:
    """Parse a number of bytes. Raises :class:`ValueError`."""
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"expected bytes such as 512MB or 2GiB, got {text!r}")
    number, letter, binary, unit = found.groups()
    base = 1000 if unit and not binary else 1024
    return int(Decimal(number) * base ** _POWERS[letter.lower()])
