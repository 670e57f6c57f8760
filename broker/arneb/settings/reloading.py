"""Reloading: what SIGHUP and ``rotate_logs`` do.

The rule: all settings are read and checked before anything changes; an error is reported and
changes nothing. Hooks apply what can change at once; any other changed setting is reported as
needing a restart.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import trio

from arneb.settings.config import Config, ConfigInvalid

logger = logging.getLogger(__name__)

Hook = Callable[[Config], Awaitable[None]]
"""Applies the settings. Raises :class:`ValueError` or :class:`OSError` with the reason when it
cannot; the previous ones then stay in effect."""


class Reloading:
    """Reads the settings of a process again, and calls the hooks that apply them."""

    def __init__(self, load: Callable[[], Config]) -> None:
        """``load`` reads the settings as the start did, and raises :class:`ConfigInvalid`."""
        self._load = load
        self._hooks: list[tuple[str, frozenset[str], Hook]] = []
        self.is_done = True
        """Whether the last reload succeeded, in all hooks."""

    def __repr__(self) -> str:
        return f"<Reloading {', '.join(name for name, _, _ in self._hooks)}>"

    def add(self, name: str, hook: Hook, *followed: str) -> Callable[[], None]:
        """Call ``hook`` at each reload; the log calls it ``name``. Changes of the settings
        ``followed``, given by dotted names, take effect at once. Return a function that removes
        the hook."""
        entry = (name, frozenset(followed), hook)
        self._hooks.append(entry)
        return lambda: self._hooks.remove(entry)

    async def run(self, before: Config) -> list[str]:
        """Read the settings again and call every hook; return the lines to report."""
        self.is_done = False
        try:
            config = await trio.to_thread.run_sync(self._load)
        except ConfigInvalid as error:
            logger.error("settings are not reloaded: %s", error)
            return [f"not reloaded: {error}"]
        lines: list[str] = []
        followed: set[str] = set()
        failed = 0
        for name, keys, hook in list(self._hooks):
            try:
                await hook(config)
            except (ValueError, OSError) as error:
                logger.error("%s: not reloaded: %s", name, error)
                failed += 1
                lines.append(f"{name}: not reloaded: {error}")
            else:
                followed |= keys
                lines.append(f"{name}: reloaded")
        self.is_done = not failed
        others = (key for key in changed(before, config) if not _is_among(key, followed))
        return [*lines, *(f"{key} has changed and holds from the next start on" for key in others)]


def changed(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """Yield the dotted names of the settings that differ."""
    for field in fields(before):
        dotted = f"{where}.{field.name}" if where else field.name
        was, now = getattr(before, field.name), getattr(after, field.name)
        if is_dataclass(was) and is_dataclass(now) and type(was) is type(now):
            yield from changed(was, now, dotted)
        elif was != now:
            yield dotted


def _is_among(key: str, followed: Collection[str]) -> bool:
    return any(key == each or key.startswith(f"{each}.") for each in followed)
