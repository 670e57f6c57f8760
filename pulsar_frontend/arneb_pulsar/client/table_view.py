"""A table view: the last value of each key of a topic, kept up to date.

The rule: it has everything sent before it was made or last refreshed, and adds new messages as they
come; a message without a value removes its key.
"""

import logging
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping
from typing import Final, Generic, TypeVar

import anyio

from arneb_pulsar.client.consumer.message import Message
from arneb_pulsar.client.errors import ClientClosed, PulsarError, SchemaError
from arneb_pulsar.client.ids import MessageId
from arneb_pulsar.client.interceptors import guarded
from arneb_pulsar.client.reader import Reader
from arneb_pulsar.client.tasks.closing import Closing
from arneb_pulsar.client.tasks.waiting import Bell

LOG = logging.getLogger("arneb_pulsar.client")

T = TypeVar("T")

LOOK_AGAIN_S: Final = 0.1
"""How often to check whether everything is read, while no message comes."""


class TableView(Closing, Mapping[str, T], Generic[T]):
    """The latest values by key. Made by ``Client.create_table_view``."""

    def __init__(self, reader: Reader[T]) -> None:
        self._reader = reader
        self._values: dict[str, T] = {}
        self._ids: dict[str, MessageId] = {}
        self._positions: dict[str, MessageId] = {}
        self._watchers: list[Callable[[str, T | None], None]] = []
        self._read = Bell()
        self._failure: PulsarError | None = None

    def __repr__(self) -> str:
        return f"<TableView of {self._reader.topic}, {len(self._values)} keys>"

    def __getitem__(self, key: str) -> T:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def keys(self) -> KeysView[str]:
        """Return the keys that have a value."""
        return self._values.keys()

    def items(self) -> ItemsView[str, T]:
        """Return the keys and their values."""
        return self._values.items()

    def position_of(self, key: str) -> MessageId:
        """Return the id of the message with a key's value. Raises :class:`KeyError`."""
        return self._ids[key]

    @property
    def positions(self) -> Mapping[str, MessageId]:
        """The last message read from each topic or partition, by its complete name."""
        return self._positions

    def listen(self, watcher: "Callable[[str, T | None], None]") -> None:
        """Call ``watcher`` with (key, value) for every change from now on; the value is None when a
        key is removed. What it raises is logged."""
        self._watchers.append(watcher)

    def for_each_and_listen(self, watcher: "Callable[[str, T | None], None]") -> None:
        """Call ``watcher`` for all present keys, and then as :meth:`listen`."""
        for key, value in self._values.items():
            guarded(watcher, key, value)
        self.listen(watcher)

    async def refresh(self) -> None:
        """Wait until everything sent so far is read. Raises the error that ended the view."""
        while self._failure is None and await self._reader.has_message_available():
            with anyio.move_on_after(LOOK_AGAIN_S):
                await self._read.wait()
        # A message read meanwhile may have ended the view.
        if self._failure is not None:
            raise self._failure

    @property
    def is_closed(self) -> bool:
        """Whether it no longer follows the topic."""
        return self._reader.is_closed

    async def close(self) -> None:
        """Stop following the topic; the values read stay."""
        await self._reader.close()

    async def follow(self) -> None:
        """Read until the view is closed; a task of the client runs this."""
        try:
            while True:
                self._take(await self._reader.read())
                if not self._reader.waiting:
                    self._read.ring()
        except ClientClosed as error:
            self._failure = error
        except Exception as error:  # an application's schema may raise anything
            LOG.error("%r is out of date from now on: %r", self, error)
            text = f"expected values of {self._reader.topic}, got {error!r}"
            self._failure = error if isinstance(error, PulsarError) else SchemaError(text)
        finally:
            self._read.ring()

    def _take(self, message: "Message[T]") -> None:
        self._positions[message.topic] = message.id
        key = message.key
        if key is None:
            return
        value = None if message.is_null or not message.data else message.value
        if value is None:
            self._values.pop(key, None)
            self._ids.pop(key, None)
        else:
            self._values[key] = value
            self._ids[key] = message.id
        for each in self._watchers:
            guarded(each, key, value)
