"""File descriptors: the process's limit is raised, since each connection needs one.

The rule: only the soft limit is raised, which exists for programs that use ``select``; the hard
limit is the administrator's decision.
"""

import resource
from typing import Final

DESCRIPTORS_MAX: Final = 1 << 20
"""The most descriptors to ask for: more connections than any machine holds. Some systems' hard
limit is a thousand times this, and the kernel would size its tables for it."""


def raise_limit() -> int:
    """Raise the soft limit as far as allowed, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
