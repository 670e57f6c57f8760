"""Schema views: bodies of messages decoded by the schema of their topic.

The rule: bodies are decoded in a thread, with the version that the producer named and no other; one
that cannot be decoded is shown as bytes, with the reason.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import trio

from arneb.http.management.requests.calls import Document
from arneb.http.management.site import Site
from arneb_core.api.entries.codec import Message
from arneb_core.api.topics.topic import Topic

if TYPE_CHECKING:
    from arneb_pulsar.schemas.schema import Version

READ_BYTES_MAX: Final = 4 * 1024 * 1024
"""All bodies decoded for one answer: Python decodes some MB a second. The rest stays undecoded."""

TEXT_CHARACTERS_MAX: Final = 256 * 1024
"""Text shown of one body."""

_Asked = list[tuple[int, "Version", Message]]


async def schema_views(site: Site, topic: Topic, of: Sequence[Message]) -> dict[int, Document]:
    """Return the views of the messages that name a version of the topic's schema, by index."""
    if site.pulsar is None or all(each.schema_version is None for each in of):
        return {}
    from arneb_pulsar.names import parse_topic
    from arneb_pulsar.schemas.schema import version_number

    base = parse_topic(topic.name).base
    versions = {each.number: each for each in site.pulsar.schemas.versions(base)}
    asked: _Asked = []
    left = READ_BYTES_MAX
    for index, message in enumerate(of):
        if message.schema_version is None or message.is_null:
            continue
        try:
            version = versions.get(version_number(message.schema_version))
        except ValueError:
            continue  # a producer may send anything
        left -= len(message.value)
        if version is not None and version.schema is not None and left >= 0:
            asked.append((index, version, message))
    return await trio.to_thread.run_sync(_views, asked) if asked else {}


def _views(asked: _Asked) -> dict[int, Document]:
    from arneb_pulsar.schemas.avro_value import InvalidValue
    from arneb_pulsar.schemas.values import READABLE, value_text

    found: dict[int, Document] = {}
    for index, version, message in asked:
        schema = version.schema
        assert schema is not None, "deleted ones are not asked for"
        view: Document = {"version": version.number, "type": schema.type.name}
        if schema.type in READABLE:
            try:
                text = value_text(schema, message.value, message.key)
                view |= {"text": text[:TEXT_CHARACTERS_MAX]}
                view["is_cut"] = len(text) > TEXT_CHARACTERS_MAX
            except InvalidValue as error:
                view["problem"] = str(error)
        found[index] = view
    return found
