"""File descriptors: as many as this process may have, since each connection needs one.

The rule: only the soft limit is moved, which is there for programs that use ``select``; the
hard one is the administrator's word.
"""

import resource
from typing import Final

DESCRIPTORS_MAX: Final = 1 << 20
"""More connections than any machine would hold; some systems' hard limit is a thousand times
that, and then the kernel's tables would be made for it."""


def raise_limit() -> int:
    """Allow as many descriptors as we may, and say how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
