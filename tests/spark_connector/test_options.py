"""The options: what is accepted, and that every refusal names its option."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.topology.names import topic_of
from arneb_core.access.namespaces import proposed_namespace
from arneb_core.api.entries.position import Position, position_at
from pyspark_arneb.log.directory import Directory
from pyspark_arneb.log.topics import TopicSelection, full_name
from pyspark_arneb.offsets import EARLIEST, LATEST, Offsets, Times
from pyspark_arneb.option_table import GivenOptions, OptionError
from pyspark_arneb.options import ALIASES, ColumnStyle, SnapshotTime, read_options
from pyspark_arneb.pipeline.replay import Target as Replayed
from pyspark_arneb.stream.options import batch_options
from pyspark_arneb.target import Target

LEAST = {"path": "/data", "topic": "orders"}
ORDERS = full_name("orders")


def test_no_secret_is_shown() -> None:
    secret = {"service.url": "http://b:1", "topic": "t", "service.password": "hush"}
    by_key = Target("s3://lake", {"AWS_SECRET_ACCESS_KEY": "hush"})
    for each in (GivenOptions(secret, ALIASES), read_options(secret), by_key, Replayed(secret)):
        assert "hush" not in repr(each)


def test_path_and_topic_are_enough() -> None:
    options = read_options(LEAST)
    assert options.location == Directory("/data")
    assert options.topics.names == (ORDERS,)
    assert (options.start, options.end) == (Offsets(EARLIEST), Offsets(LATEST))
    assert options.fail_on_data_loss
    assert not options.include_properties
    assert not options.pushdown
    assert options.style is ColumnStyle.ARNEB
    assert options.snapshot is SnapshotTime.QUERY


def test_a_relative_path_is_made_absolute_where_the_user_stands() -> None:
    assert read_options({**LEAST, "path": "data"}).location == Directory(str(Path.cwd() / "data"))
    assert read_options({**LEAST, "path": "file:///my%20data"}).location == Directory("/my data")


@pytest.mark.parametrize(
    ("name", "alias"), [(name, alias) for name, aliases in ALIASES.items() for alias in aliases]
)
def test_an_alias_means_its_option_and_not_both_may_be_given(name: str, alias: str) -> None:
    values = {"topics": "a,b", "topicsPattern": ".*", "includeProperties": "true"}
    value = values.get(name, "5")
    base = {"path": "/data"} if name.startswith("topics") else LEAST
    assert read_options({**base, alias: value}) == read_options({**base, name: value})
    with pytest.raises(OptionError, match=f'"({alias}|{name})".*another name'):
        read_options({**base, alias: value, name: value})


VALUES = {
    "topic": "a",
    "topics": "a",
    "topicsPattern": "a",
    "queue": "a",
    "assign": '{"a": [0]}',
    "path": "/d",
    "columns": "key",
    "startingOffsets": '{"a": "1:2"}',
    "endingOffsets": '{"a": "1:2"}',
    "startingTime": "5",
    "endingTime": "5",
    "startingOffsetsByTimestamp": '{"a": 5}',
    "endingOffsetsByTimestamp": '{"a": 5}',
    "timeZone": "Europe/Berlin",
    "minPartitions": "3",
    "maxRecordsPerPartition": "3",
    "failOnDataLoss": "false",
    "onCorrupt": "skip",
    "includeProperties": "true",
    "internalTopics": "true",
    "valueAs": "string",
    "columnStyle": "kafka",
    "pushdown": "true",
    "snapshot": "load",
    "nice": "3",
}


@pytest.mark.parametrize("name", sorted(VALUES))
def test_case_does_not_matter_as_spark_does_not_keep_it(name: str) -> None:
    base = {} if name == "path" else {"path": "/d"}
    topic = {} if name.startswith("topic") or name in ("queue", "assign") else {"topic": "a"}
    meant = read_options({**base, **topic, name: VALUES[name]})
    for spelled in (name.upper(), name.lower()):
        assert read_options({**base, **topic, spelled: VALUES[name]}) == meant
    without = read_options({"path": "/other", "topic": "b"} if not topic else {**LEAST, **topic})
    assert meant != without, "it changes something"


BAD = [
    ("path", {"topic": "a"}, 'give "path" or "service.url"'),
    ("path", {"path": " ", "topic": "a"}, "data directory"),
    ("topic", {"path": "/d"}, "exactly one"),
    ("topic", {"path": "/d", "topic": "a", "topics": "b"}, "topic and topics"),
    ("topic", {"path": "/d", "topic": "a/b"}, "%2F"),
    ("topics", {"path": "/d", "topics": "a,,b"}, "commas"),
    ("subscribe", {"path": "/d", "subscribe": ""}, "commas"),
    ("topicsPattern", {"path": "/d", "topicsPattern": "("}, "regular expression"),
    ("startingOffsets", {**LEAST, "startingOffsets": "first"}, "earliest, latest"),
    ("startingOffsets", {**LEAST, "startingOffsets": "[1]"}, "earliest, latest"),
    ("startingOffsets", {**LEAST, "startingOffsets": '{"orders": 5}'}, "ledger:entry"),
    ("startingOffsets", {**LEAST, "startingOffsets": '{"orders": "1"}'}, "ledger:entry"),
    ("startingOffsets", {**LEAST, "startingOffsets": '{"a/b": "1:0"}'}, "%2F"),
    ("topicsPattern", {"path": "/d", "topicsPattern": ""}, "an empty text"),
    ("endingOffsets", {**LEAST, "endingOffsets": "earliest"}, "read nothing"),
    ("endingOffsets", {**LEAST, "endingOffsets": '{"orders": "earliest"}'}, "read nothing"),
    ("endingOffsets", {**LEAST, "endingOffsets": '{"orders": {"0": -2}}'}, "read nothing"),
    ("endingOffsets", {**LEAST, "endingOffsets": '{"orders": "3000000000:1"}'}, "ledger:entry"),
    ("path", {"path": "hdfs://nn/data", "topic": "a"}, "service.url"),
    ("path", {"path": "S3A://bucket/data", "topic": "a"}, "service.url"),
    ("topic", {"path": "/d", "topic": "a", "queue": "b"}, "topic and queue"),
    ("queue", {"path": "/d", "queue": ""}, "name of a queue"),
    ("assign", {"path": "/d", "assign": "[0]"}, '{"topic": [0, 1]}'),
    ("assign", {"path": "/d", "assign": '{"a": [-1]}'}, "numbers of partitions"),
    ("assign", {"path": "/d", "assign": '{"a": []}'}, "numbers of partitions"),
    ("assign", {"path": "/d", "assign": '{"a/b": [0]}'}, "%2F"),
    ("topic", {"path": "/d", "topic": "a", "assign": '{"a": [0]}'}, "topic and assign"),
    ("vhost", {"path": "/d", "topic": "a", "vhost": "b"}, "for the option queue"),
    ("timeZone", {**LEAST, "timeZone": "Mars/Olympus"}, "Europe/Berlin"),
    ("nice", {**LEAST, "nice": "20"}, "0 to 19"),
    ("onCorrupt", {**LEAST, "onCorrupt": "ignore"}, "fail, skip, raw"),
    (
        "startingOffsets",
        {**LEAST, "startingOffsets": '{"a": {"x": "1:0"}}'},
        "of a partition",
    ),
    ("startingOffsets", {**LEAST, "startingOffsets": '{"a": {"0": 17}}'}, "partition 0 of topic a"),
    ("startingTime", {**LEAST, "startingTime": "yesterday"}, "ISO 8601"),
    ("endingTime", {**LEAST, "endingTime": "1" + 22 * "0"}, "ms since the epoch"),
    (
        "endingOffsetsByTimestamp",
        {**LEAST, "endingOffsetsByTimestamp": '{"a": 9223372036854775808}'},
        "ms since the epoch for topic a",
    ),
    (
        "startingOffsets",
        {**LEAST, "startingOffsets": '{"a": "1:0", "public/default/a": "2:0"}'},
        "each topic once, got a and public/default/a",
    ),
    (
        "startingOffsetsByTimestamp",
        {**LEAST, "startingOffsetsByTimestamp": "5"},
        '{"topic": {"0": 1767225600000}}, got',
    ),
    (
        "endingOffsetsByTimestamp",
        {**LEAST, "endingOffsetsByTimestamp": '{"a": {"1": "noon"}}'},
        "ms since the epoch for partition 1 of topic a, got 'noon'",
    ),
    ("endingTimestamp", {**LEAST, "endingTimestamp": "-1"}, "ISO 8601"),
    ("minPartitions", {**LEAST, "minPartitions": "0"}, "at least 1"),
    ("maxRecordsPerPartition", {**LEAST, "maxRecordsPerPartition": "many"}, "at least 1"),
    ("failOnDataLoss", {**LEAST, "failOnDataLoss": "yes"}, "true or false"),
    ("includeHeaders", {**LEAST, "includeHeaders": "1"}, "true or false"),
    ("columns", {**LEAST, "columns": "key,"}, "commas"),
    ("columnStyle", {**LEAST, "columnStyle": "avro"}, "arneb, kafka, pulsar"),
    ("pushdown", {**LEAST, "pushdown": ""}, "true or false"),
    ("snapshot", {**LEAST, "snapshot": "now"}, "query, load"),
    ("startingOffset", {**LEAST, "startingOffset": "latest"}, 'mean "startingOffsets"'),
]


@pytest.mark.parametrize(("option", "given_options", "reason"), BAD)
def test_a_bad_option_is_refused_by_name_and_with_what_it_takes(
    option: str, given_options: dict[str, str], reason: str
) -> None:
    with pytest.raises(OptionError) as refusal:
        read_options(given_options)
    assert refusal.value.option == option
    assert f'option "{option}"' in str(refusal.value)
    assert reason in str(refusal.value)


@pytest.mark.parametrize(
    ("option", "given_options", "reason"),
    [
        ("startingOffsets", {"startingOffsets": "latest"}, "latest would read nothing"),
        ("startingOffsets", {"startingOffsets": '{"orders": -1}'}, "latest would read nothing"),
        (
            "endingOffsets",
            {"startingOffsets": '{"a": "2:1"}', "endingOffsets": '{"a": "1:7"}'},
            "expected no end before its start, got topic a from 2:1 to 1:7",
        ),
        (
            "endingOffsets",
            {"startingOffsets": '{"a": {"3": "2:1"}}', "endingOffsets": '{"a": {"3": "2:0"}}'},
            "expected no end before its start, got partition 3 of topic a from 2:1 to 2:0",
        ),
    ],
)
def test_a_batch_read_that_could_read_nothing_is_refused(
    option: str, given_options: dict[str, str], reason: str
) -> None:
    """As by Kafka's source and pulsar-spark."""
    with pytest.raises(OptionError, match=f'option "{option}": {reason}'):
        batch_options({**LEAST, **given_options})


def test_bounds_that_a_time_replaces_and_empty_ranges_are_no_mistake() -> None:
    assert batch_options({**LEAST, "startingOffsets": "latest", "startingTime": "0"})
    same = {"startingOffsets": '{"a": "2:1"}', "endingOffsets": '{"a": "2:1"}'}
    assert batch_options({**LEAST, **same})


def test_partitions_are_assigned_as_to_kafkas_source() -> None:
    found = read_options({"path": "/d", "assign": '{"a": [0, 2, 0], "t/n/b": [1]}'})
    a, b = full_name("a"), full_name("t/n/b")
    assert found.topics == TopicSelection(partitions=((a, 0), (a, 2), (b, 1)))


def test_the_name_in_a_refusal_is_spelled_properly_though_spark_lowers_it() -> None:
    with pytest.raises(OptionError, match='"includeHeaders"'):
        read_options({**LEAST, "includeheaders": "maybe"})


def test_settings_of_kafka_and_pulsar_clients_are_ignored() -> None:
    ignored = {"kafka.bootstrap.servers": "h:9092", "pulsar.client.authParams": "x"}
    ignored |= {"kafkaConsumer.pollTimeoutMs": "9", "fetchOffset.numRetries": "3"}
    assert read_options({**LEAST, **ignored}) == read_options(LEAST)


@given(ledger=st.integers(0, (1 << 31) - 1), entry=st.integers(-1, (1 << 32) - 2))
def test_offsets_are_ledger_and_entry_by_topic(ledger: int, entry: int) -> None:
    text = f'{{"orders": "{ledger}:{entry}"}}'
    start = read_options({**LEAST, "startingOffsets": text}).start
    assert start.of(ORDERS) == position_at(ledger, max(entry, 0))
    assert start.of(full_name("clicks")) == EARLIEST


def test_offsets_may_say_earliest_and_latest_for_single_topics() -> None:
    text = '{"a": "latest", "persistent://public/default/b": "earliest", "c": "4:2"}'
    start = read_options({"path": "/d", "topics": "a,b,c,d", "startingOffsets": text}).start
    places = [start.of(full_name(topic)) for topic in "abcd"]
    assert places == [LATEST, EARLIEST, Position((4 << 32) + 2), EARLIEST]


def test_edges_may_be_written_as_kafkas_source_writes_them() -> None:
    text = '{"a": {"0": -2, "1": -1}, "b": -1}'
    start = read_options({"path": "/d", "topics": "a,b", "startingOffsets": text}).start
    logs = ("a-partition-0", "a-partition-1", "b")
    assert [start.of(full_name(each)) for each in logs] == [EARLIEST, LATEST, LATEST]
    for other in ("-3", "0", "23", "true", "-1.0"):
        with pytest.raises(OptionError, match=r"startingOffsets.*expected \"ledger:entry\""):
            read_options({**LEAST, "startingOffsets": f'{{"orders": {other}}}'})


def test_offsets_of_a_partitioned_topic_are_one_for_all_or_one_for_each() -> None:
    text = '{"a": "4:2@9", "b": {"0": "1:0", "2": "latest"}, "c": {"0": "3:1@5"}, "d": "2:2"}'
    start = read_options({"path": "/d", "topics": "a,b,c,d", "startingOffsets": text}).start
    assert start.of(full_name("a-partition-7")) == position_at(4, 2)
    assert start.topic_id_of(full_name("a-partition-7")) == 9
    assert start.of(full_name("b-partition-0")) == position_at(1, 0)
    assert start.of(full_name("b-partition-1")) == EARLIEST
    assert start.of(full_name("b-partition-2")) == LATEST
    assert start.of(full_name("c")) == position_at(3, 1), (
        "a topic is its own partition 0, as in Kafka"
    )
    assert start.topic_id_of(full_name("c")) == 5
    assert start.topic_id_of(full_name("d")) is None
    topics = [full_name(each) for each in ("a-partition-0", "b-partition-0", "c", "x")]
    assert list(start.unread(topics)) == [
        "topic persistent://public/default/d",
        "partition 2 of topic persistent://public/default/b",
    ]


def test_a_path_may_begin_at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """SQL puts the working directory before it."""
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.chdir(tmp_path)
    for text in ("~/data", f"file:{tmp_path}/~/data", f"file://{tmp_path}/~/data"):
        assert read_options({**LEAST, "path": text}).location == Directory("/home/me/data")


def test_times_without_a_zone_are_of_the_zone_that_is_said_and_else_utc() -> None:
    given_options = {**LEAST, "startingTime": "2026-07-01T02:00:00"}
    berlin = read_options({**given_options, "timeZone": "Europe/Berlin"})
    assert berlin.starting_times.default == 1_782_864_000_000
    assert not berlin.assumes_zone
    assumed = read_options(given_options)
    assert assumed.starting_times.default == 1_782_864_000_000 + 2 * 3_600_000
    assert (assumed.assumes_zone, assumed.zone) == (True, "UTC")
    assert not read_options({**LEAST, "startingTime": "2026-07-01T02:00:00Z"}).assumes_zone


@given(st.text(min_size=1, max_size=8), st.sampled_from(["/", "v", "v 1", "t/n", "a%b", "/x"]))
def test_a_queue_is_found_under_the_name_that_amqp_gives_its_topic(queue: str, vhost: str) -> None:
    topic = topic_of(proposed_namespace(vhost), queue)
    found = read_options({"path": "/d", "queue": queue, "vhost": vhost}).topics
    assert found.choose([topic, full_name("other")]) == ([topic], [])
    assert found.choose([]) == ([], [topic])


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1767225600000", 1_767_225_600_000),
        ("0", 0),
        ("2026-01-01T00:00:00Z", 1_767_225_600_000),
        ("2026-01-01T01:00:00.250+01:00", 1_767_225_600_250),
        ("2026-01-01", 1_767_225_600_000),
    ],
)
def test_times_are_ms_or_iso_8601_in_utc(text: str, ms: int) -> None:
    assert read_options({**LEAST, "startingTime": text}).starting_times.default == ms


def test_times_of_single_topics_are_those_of_kafkas_source() -> None:
    text = '{"a": {"0": 5, "2": 7}, "b": 9}'
    found = read_options({"path": "/d", "topics": "a,b,c", "startingOffsetsByTimestamp": text})
    logs = ("a", "a-partition-1", "a-partition-2", "b-partition-4", "c")
    assert [found.starting_times.of(full_name(each)) for each in logs] == [5, None, 7, 9, None]
    assert found.has_time_bounds
    one = {"startingTimestamp": "3", "startingOffsetsByTimestamp": text}
    assert read_options({**LEAST, **one}).starting_times == Times(3), (
        "startingTime must take precedence"
    )


def test_properties_come_on_request_but_always_in_pulsar_style() -> None:
    assert read_options({**LEAST, "includeHeaders": "true"}).include_properties
    assert read_options({**LEAST, "columnStyle": "pulsar"}).include_properties
    refused = {**LEAST, "columnStyle": "pulsar", "includeProperties": "false"}
    assert not read_options(refused).include_properties


@given(
    st.dictionaries(
        st.sampled_from([spelling for name, also in ALIASES.items() for spelling in (name, *also)]),
        st.text(max_size=12),
        max_size=6,
    )
)
def test_whatever_is_given_is_accepted_or_refused_by_name(given_options: dict[str, str]) -> None:
    try:
        read_options(given_options)
    except OptionError as refusal:
        assert str(refusal).startswith('option "')
