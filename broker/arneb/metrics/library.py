"""Prometheus' client library, which writes the single figures of a page.

The rule: only a page that is asked for imports this module, and in a thread. The library takes
3 MiB and some 40 ms, and many a broker is never asked.
"""

from collections.abc import Iterable
from functools import cache

from prometheus_client import CollectorRegistry
from prometheus_client import generate_latest as _generate_latest
from prometheus_client.registry import Collector


def page_of(collectors: Iterable[Collector]) -> str:
    """Return single figures as the library writes them. Safe in any thread."""
    registry = CollectorRegistry()
    for each in collectors:
        registry.register(each)
    page: bytes = _generate_latest(registry)
    return page.decode()


@cache
def library_version() -> str:
    """Return the library's version. Reads files, so call it in a thread."""
    from importlib.metadata import version

    return version("prometheus_client")
