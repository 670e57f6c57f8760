"""Callers: the role that makes a request, and the one on whose behalf it does.

The rule: values only. A proxy acts on behalf of another role, and then both need the permission.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request."""

    role: str = ""
    """The proved role; empty = no proof was required."""
    original: str = ""
    """The role that a proxy says it acts for; empty = the caller acts for itself."""

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that must all have the permission."""
        return (self.role, self.original) if self.original else (self.role,)

    def flaw(self, proxies: Collection[str]) -> str:
        """Return why ``role`` cannot act for ``original``, for the log; empty if it can."""
        if self.role in proxies:
            if not self.original.strip():
                return "a proxy must say on whose behalf it comes"
            if self.original in proxies:
                return "a proxy cannot come on behalf of another"
        elif self.original:
            return "only a proxy can come on behalf of another"
        return ""


NOBODY: Final = Caller()
"""The caller where no authentication is required."""
