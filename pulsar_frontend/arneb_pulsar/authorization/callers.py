"""Callers: on whose behalf something is asked for.

The rule: values. A proxy asks on behalf of somebody, and then both must be allowed what is asked.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks."""

    role: str = ""
    """That was proved; empty = nobody asked for a proof."""
    original: str = ""
    """For whom a proxy asks, as it says itself; empty = the caller asks for itself."""

    @property
    def roles(self) -> tuple[str, ...]:
        """All of them must be allowed what is asked."""
        return (self.role, self.original) if self.original else (self.role,)

    def flaw(self, proxies: Collection[str]) -> str:
        """Why these two do not go together, for the log; empty if they do."""
        if self.role in proxies:
            if not self.original.strip():
                return "a proxy must say on whose behalf it comes"
            if self.original in proxies:
                return "a proxy cannot come on behalf of another"
        elif self.original:
            return "only a proxy can come on behalf of another"
        return ""


NOBODY: Final = Caller()
"""Whoever comes where nobody is asked."""
