"""Membership: nodes report what they have on disk, and a leader trims the topic by these reports.

The rule: reports use a topic of their own without subscriptions, so they pin nothing and may be
lost: the next one follows. The protocol decides what follows from them (:mod:`.protocol.trimming`).
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol
from uuid import uuid4

import trio

from arneb_cluster.commit_log import Applied
from arneb_cluster.protocol.leadership import State
from arneb_cluster.protocol.members import Members, Report, pack_report, parse_report
from arneb_cluster.protocol.node import Node
from arneb_cluster.protocol.trimming import Trim, Trimming, Write
from arneb_cluster.pulsar.log_topic import LogTopic
from arneb_cluster.replica import MEMBERS_ROW, Replica
from arneb_cluster.settings import ShardSettings
from arneb_core.api.errors import StoreUnusable
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.commit_record import encode_changes
from arneb_pulsar.client import Client
from arneb_pulsar.client.errors import PulsarError
from arneb_pulsar.client.ids import EARLIEST, LATEST

RETRY_S: Final = 1.0
"""Wait after Pulsar could not be reached."""

CLOSE_S: Final = 1.0
"""How long a stopping node waits for a broker's answer."""

CHECK_INTERVAL_S: Final = 0.5
"""The interval of a leader's checks: long enough to cost nothing."""

logger = logging.getLogger(__name__)


class Leading(Protocol):
    """The leading node, for storing records."""

    def commit(self, body: bytes, changes: Changes, ended: Applied) -> bool:
        """Store and apply a commit; False: this node no longer leads."""
        ...


class Closes(Protocol):
    """Something that can be closed."""

    async def close(self) -> None:
        """Close it."""
        ...


class Membership:
    """One node's membership in one shard."""

    def __init__(
        self,
        client: Client,
        settings: ShardSettings,
        topic: LogTopic,
        replica: Replica,
        node: Node,
        leading: Leading,
        now_ms: Callable[[], int],
    ) -> None:
        self._client = client
        self._settings = settings
        self._topic = topic
        self._replica = replica
        self._node = node
        self._leading = leading
        self._now_ms = now_ms
        self._trimming: Trimming | None = None
        self.run_id = str(uuid4())
        """The name of this run in its reports."""

    def __repr__(self) -> str:
        return f"<Membership of {self._settings.node}, {self._trimming or 'follows'}>"

    @property
    def members(self) -> Members:
        """The members: a leader knows them by their reports, another node by its directory, a
        minute late."""
        return self._replica.members if self._trimming is None else self._trimming.members

    @property
    def alarm(self) -> str:
        """Why the topic is no longer trimmed; empty if nothing is wrong."""
        now_ms = self._now_ms()
        if self._trimming is not None:
            return self._trimming.alarm(now_ms)
        if not self._replica.members.by_node:
            return ""  # nobody has written the list yet
        return self._replica.members.missing(now_ms, self._settings.copies)

    @property
    def is_settled(self) -> bool:
        """Whether a leader has heard from every live member, so its knowledge is fresh."""
        return self._trimming is not None and self._trimming.is_settled(self._now_ms())

    async def run(self) -> None:
        """Take part until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tell)
            nursery.start_soon(self._lead)
            nursery.start_soon(self._note_version)

    # As a member

    async def _tell(self) -> None:
        await tell(self._client, self._settings, self.report)

    def report(self) -> Report:
        """Return this node's report of what it has on disk."""
        flushed, settings = self._replica.flushed, self._settings
        internal = settings.addresses.get("internal", "")
        return Report(
            settings.node, self.run_id, flushed.link.number, flushed.place, internal=internal,
            history=flushed.history, leads=self._trimming is not None,
        )  # fmt: skip

    async def _note_version(self) -> None:
        """Note the entry version that all members read: a leader, present or future, writes no
        later one."""
        while True:
            self._node.all_read(self.members.version)
            await trio.sleep(CHECK_INTERVAL_S)

    # As a leader

    async def _lead(self) -> None:
        while True:
            await trio.sleep(CHECK_INTERVAL_S)
            if self._node.state is not State.LEADING:
                continue
            settings, epoch = self._settings, self._node.reader.epoch
            self._trimming = trimming = Trimming(
                settings.node, self._replica.members, settings.copies, self._now_ms()
            )
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._hear, trimming)
                    while self._leads(epoch):
                        await self._look(trimming)
                        await trio.sleep(CHECK_INTERVAL_S)
                    nursery.cancel_scope.cancel()
            finally:
                self._trimming = None

    def _leads(self, epoch: int) -> bool:
        node = self._node
        return node.state is State.LEADING and node.reader.epoch == epoch

    async def _hear(self, trimming: Trimming) -> None:
        """Take reports from now on: earlier ones are outdated, and every member reports again."""
        topic = self._settings.members_topic
        while True:
            try:
                reader = await self._client.create_reader(topic, LATEST)
                try:
                    while True:
                        message = await reader.read()
                        try:
                            self._heard(trimming, parse_report(message.data))
                        except ValueError as error:
                            logger.warning("%s: %s", topic, error)
                finally:
                    await _close(reader)
            except PulsarError as error:
                logger.warning("%s: %s", topic, error)
                await trio.sleep(RETRY_S)

    def _heard(self, trimming: Trimming, report: Report) -> None:
        own = self._node.reader.history
        if report.history not in ("", own):
            logger.warning(
                "node %s has history %s of %s, expected %s: ignoring its report",
                report.node, report.history, self._settings.shard, own,
            )  # fmt: skip
            return
        trimming.heard(report, self._now_ms())

    async def _look(self, trimming: Trimming) -> None:
        window = self._node.window
        if window is None:
            return
        for asked in trimming.tick(self._now_ms(), window.link.number, window.stored):
            if isinstance(asked, Write):
                changes = Changes(puts=[(*MEMBERS_ROW, asked.members.pack())])
                self._leading.commit(
                    encode_changes(changes), changes, lambda _report: trimming.written()
                )
            else:
                await self._trim(trimming, asked)

    async def _trim(self, trimming: Trimming, asked: Trim) -> None:
        try:
            await self._topic.trim(asked.place)
        except (PulsarError, StoreUnusable) as error:
            logger.warning("cannot trim %r up to %s: %s", self._topic, asked.place, error)
            trimming.failed()
        else:
            logger.info("trimmed %r up to %s", self._topic, asked.place)


async def tell(client: Client, settings: ShardSettings, report: Callable[[], Report]) -> None:
    """Report what a node has, periodically, until cancelled."""
    while True:
        try:
            producer = await client.create_producer(settings.members_topic)
            try:
                while True:
                    await producer.send(pack_report(report()))
                    await trio.sleep(settings.copies.report_s)
            finally:
                await _close(producer)
        except PulsarError as error:
            logger.warning("%s: %s", settings.members_topic, error)
            await trio.sleep(RETRY_S)


async def newest_reports(client: Client, settings: ShardSettings) -> dict[str, Report]:
    """Return every node's last report that Pulsar still has. Raises :class:`PulsarError`."""
    found: dict[str, Report] = {}
    reader = await client.create_reader(settings.members_topic, EARLIEST)
    try:
        while await reader.has_message_available():
            with suppress(ValueError):
                report = parse_report((await reader.read()).data)
                found[report.node] = report
    finally:
        await _close(reader)
    return found


async def _close(used: Closes) -> None:
    """Close it within a time limit, because there may be no broker to answer."""
    with trio.move_on_after(CLOSE_S, shield=True), suppress(PulsarError):
        await used.close()
