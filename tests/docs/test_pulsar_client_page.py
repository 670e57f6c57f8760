"""The page of the client library: its bounds are those of the code, and its figure shows them.

That its programs run is seen in ``tests/pulsar_client/test_documentation.py``."""

import re
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from arneb_pulsar.client.connecting import MEMORY_BYTES_MAX, ClientOptions
from arneb_pulsar.client.consumer.options import ConsumerOptions
from arneb_pulsar.client.producer.options import Batching
from arneb_pulsar.client.tasks.room import ROOMY, SHORT
from arneb_pulsar.client.trackers.ack_grouping import OPEN_BATCHES_MAX
from arneb_pulsar.client.trackers.chunks import NOTED_MAX
from arneb_pulsar.client.trackers.negative_acks import ENTRIES_MAX
from arneb_pulsar.client.trackers.redelivery import REDELIVERED_IDS_MAX
from arneb_pulsar.wire.compression import UNCOMPRESSED_BYTES_MAX

GUIDE: Final = Path(__file__).resolve().parents[2] / "docs" / "guide"
TEXT: Final = (GUIDE / "pulsar-client.md").read_text(encoding="utf-8")
PROGRAMS: Final = re.findall(
    r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL
)


def test_every_program_says_what_it_prints() -> None:
    assert len(PROGRAMS) == TEXT.count("```python") == 8


def test_the_bounds_are_those_of_the_code() -> None:
    options, batching = ConsumerOptions(), Batching()
    rows = dict(
        re.findall(r"^\| (.*?) \| (.*?) \| .*\|$", TEXT.split("## Bounds")[1], re.MULTILINE)
    )
    assert rows == {
        "what": "bound",
        "messages in a receiver queue": f"{options.queue_size:,}",
        "acknowledgements in one command": (
            f"{options.ack_group_max:,}, or those of {options.ack_group_s} s"
        ),
        "batches of which a part is acknowledged": f"{OPEN_BATCHES_MAX:,}",
        "what a client holds: messages without a receipt, and what waits in queues with "
        "`auto_scaled_queue`": (
            f"{MEMORY_BYTES_MAX >> 20} MiB; such queues grow below {100 * ROOMY:.0f} % of it, and "
            f"are halved at {100 * SHORT:.0f} %"
        ),
        "connections to one broker": (
            f"{ClientOptions().connections_per_broker}, and one for each fencing producer"
        ),
        "negative acknowledgements that wait": f"{ENTRIES_MAX:,}",
        "entries in one request for redelivery": f"{REDELIVERED_IDS_MAX:,}",
        "large messages of which chunks are missing": (
            f"{options.chunked_pending_max}, for {options.chunk_expire_s:.0f} s"
        ),
        "chunks of which it is known since when they come without the others": f"{NOTED_MAX:,}",
        "a payload after decompression, or put together from chunks": (
            f"{UNCOMPRESSED_BYTES_MAX >> 20} MiB"
        ),
        "a batch": (
            f"{batching.messages_max:,} messages, {batching.bytes_max >> 10} KiB,"
            f" {batching.delay_s * 1000:.0f} ms"
        ),
    }


def test_the_figure_is_one() -> None:
    [name] = re.findall(r"!\[.*?\]\((.*?)\)", TEXT)
    words = " ".join(ET.parse(GUIDE / name).getroot().itertext())
    for each in ("Receiver queue", "Ack timeout", "Negative acks", "Ack grouping"):
        assert each in words
