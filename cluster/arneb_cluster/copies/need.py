"""Need: whether a directory can continue by reading the topic, or only with a copy.

The rule: it is checked before a node takes part. The topic shows what a directory lacks: the first
record that counts, or the first that can only exist after trimming.
"""

from typing import Final

from arneb_cluster.membership import newest_reports
from arneb_cluster.protocol.reader import LogReader, Verdict
from arneb_cluster.protocol.values import Applied
from arneb_cluster.pulsar.log_topic import LogTopic, entry_of
from arneb_cluster.replica import UNFOUNDED
from arneb_cluster.settings import ShardSettings
from arneb_pulsar.client import Client

READ_RATHER_MAX: Final = 10_000
"""The most records that an empty directory reads instead of having another node make a copy:
reading them takes some seconds."""


async def needs_copy(
    client: Client, topic: LogTopic, settings: ShardSettings, applied: Applied
) -> bool:
    """Whether a directory that has ``applied`` needs a copy. Raises :class:`PulsarError`."""
    if applied == UNFOUNDED and await _is_far_behind(client, settings):
        return True
    judging = LogReader(settings.shard, applied)
    reader = await topic.reader(applied.place)
    try:
        while await reader.has_message_available():
            verdict, _ = judging.read(*entry_of(await reader.read()))
            if verdict is Verdict.LACKING:
                return True
            if verdict is Verdict.COUNTED:
                return False
        return False
    finally:
        await reader.close()


async def _is_far_behind(client: Client, settings: ShardSettings) -> bool:
    known = await newest_reports(client, settings)
    return any(
        each.number > READ_RATHER_MAX and each.internal and not each.is_copying
        for name, each in known.items()
        if name != settings.node
    )
