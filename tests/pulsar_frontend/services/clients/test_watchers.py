"""Topics that come and go, told to those who watch."""

from typing import Any

import pytest
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import connected

from arneb_core.api.topics.settings import TopicSettings
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

pytestmark = pytest.mark.real_time


def watch(**fields: Any) -> pb.CommandWatchTopicList:
    values = {"namespace": "public/default", "topics_pattern": "public/default/t.*"} | fields
    return pb.CommandWatchTopicList(request_id=5, watcher_id=1, **values)


async def test_a_watcher_hears_when_it_is_on_disk(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 2) as (watcher, other):
        await watcher.send(watch())
        assert not (await watcher.expect(pb.CommandWatchTopicListSuccess)).topic
        running.store.hold()
        await other.send(pb.CommandProducer(topic="t1", producer_id=1, request_id=1))
        assert await watcher.silent()
        running.store.release()
        update = await watcher.expect(pb.CommandWatchTopicUpdate)
        assert list(update.new_topics) == ["persistent://public/default/t1"]
        await other.expect(pb.CommandProducerSuccess)
        await other.producer("else", producer_id=2)
        await running.core.create_topic("non-persistent://public/default/t", TopicSettings())
        await running.core.create_topic("persistent://other/space/t")
        await running.core.delete_topic("persistent://public/default/t1")
        update = await watcher.expect(pb.CommandWatchTopicUpdate)
        assert list(update.deleted_topics) == ["persistent://public/default/t1"]
        await watcher.send(pb.CommandWatchTopicListClose(request_id=6, watcher_id=1))
        await watcher.expect(pb.CommandSuccess)
        await other.producer("t2", producer_id=3)
        assert await watcher.silent()


async def test_a_watcher_that_leaves_is_forgotten(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        async with connected(running.context) as (watcher,):
            await watcher.send(watch())
            await watcher.expect(pb.CommandWatchTopicListSuccess)
        assert not running.context.watchers._by_namespace
        await running.core.create_topic("persistent://public/default/t1")
