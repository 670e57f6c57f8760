"""The configuration: the file, then flags, each refused in one line when it is wrong."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb.settings.config import Address, Config, ConfigInvalid, load_config, parse_listen
from arneb_core.api.topics.settings import DelayedSettings, Retention, TrackerKind

hosts = st.sampled_from(["127.0.0.1", "localhost", "example.org", "::1", "fe80::1%lo"])


@given(hosts, st.integers(0, 65535))
def test_an_address_is_read_as_it_is_written(host: str, port: int) -> None:
    address = Address(host, port)
    assert parse_listen(str(address)) == address


@given(st.text() | st.integers() | st.none() | st.booleans() | st.lists(st.text()))
def test_any_value_is_an_address_off_or_refused(value: object) -> None:
    try:
        listen = parse_listen(value)
    except ValueError as error:
        assert "expected" in str(error)
    else:
        assert listen is None or parse_listen(str(listen)) == listen


AMQP_TOO_SMALL = "amqp: expected {} of at least message_bytes_max, which is 134217728, got 1000"


@pytest.mark.parametrize(
    "value", ["5672", ":5672", "host", "host:", "host:65536", "host:-1", "::1:5672", "host:٣", ""]
)
def test_invalid_addresses_are_refused(value: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_listen(value)


def test_off_is_no_listener() -> None:
    assert parse_listen("off") is None


def test_the_defaults_are_the_documented_ones() -> None:
    config = load_config(None)
    assert config == Config()
    assert str(config.amqp.listen) == "127.0.0.1:5672"
    assert str(config.pulsar.listen) == "127.0.0.1:6650"
    assert str(config.http.listen) == "127.0.0.1:15672"
    assert str(config.http_pulsar.listen) == "127.0.0.1:8080"
    assert config.data_dir == Path("arneb-data")


def test_a_flag_overrides_the_file(tmp_path: Path) -> None:
    file = tmp_path / "arneb.toml"
    file.write_text('data_dir = "log"\n[amqp]\nlisten = "0.0.0.0:1"\n[pulsar]\nlisten = "off"\n')
    config = load_config(file, amqp="127.0.0.1:0")
    assert config.amqp.listen == Address("127.0.0.1", 0)
    assert config.pulsar.listen is None
    assert config.data_dir == tmp_path / "log"
    assert load_config(file, data_dir=Path("other")).data_dir == Path("other")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[amqp]\nlisten = "x"', 'amqp.listen: expected "HOST:PORT" or "off", got "x"'),
        (
            "[amqp]\ntransaction_bytes_max = 1000",
            AMQP_TOO_SMALL.format("transaction_bytes_max"),
        ),
        (
            "[amqp]\npartial_bytes_max = 1000",
            AMQP_TOO_SMALL.format("partial_bytes_max"),
        ),
        ("[amqp]\nlisten = 5672", 'amqp.listen: expected "HOST:PORT" or "off", got 5672'),
        ("[ampq]", 'unknown key "ampq"; did you mean "amqp"?'),
        ("data_dir = 3", "data_dir: expected a path, got 3"),
        ("[delayed]\ntick_ms = 0", "delayed: expected tick_ms of at least 1, got 0"),
        (
            '[delayed]\ntracker = "disk"',
            "delayed.tracker: expected one of bucket, memory, got 'disk'",
        ),
        ("[delayed]\ntracker = []", "delayed.tracker: expected one of bucket, memory, got []"),
        ("[amqp]\nheartbeat_s = 100000", "amqp: expected heartbeat_s from 0 to 65535, got 100000"),
        ("[amqp]\nchannel_max = -1", "amqp: expected channel_max from 0 to 65535, got -1"),
        (
            "[amqp]\nframe_bytes_max = 4294967296",
            "amqp: expected frame_bytes_max from 0 to 4294967295, got 4294967296",
        ),
        ("[amqp]\nhandshake_s = 0", "amqp: expected handshake_s of more than 0, got 0.0"),
        ("[amqp]\nhandshake_s = nan", "amqp.handshake_s: expected a finite number, got nan"),
        ("[amqp]\nclose_s = -1", "amqp: expected close_s of at least 0, got -1.0"),
        (
            "[amqp]\nmessage_bytes_max = -1",
            "amqp: expected message_bytes_max of at least 0, got -1",
        ),
        ('data_dir = "a\\u0000b"', r"data_dir: expected a path, got 'a\x00b'"),
        ("x = " + "9" * 5000, "a number with too many digits"),
        ("x = " + "[" * 100_000, "lists or tables nested too deeply"),
        ("amqp =", "not TOML: Invalid value (at end of document)"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "arneb.toml"
    file.write_text(text)
    with pytest.raises(ConfigInvalid) as caught:
        load_config(file)
    assert str(caught.value) == f"{file}: {message}"


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="cannot read .*: Is a directory"):
        load_config(tmp_path)
    with pytest.raises(ConfigInvalid, match="cannot read .*: No such file or directory"):
        load_config(tmp_path / "absent")
    (tmp_path / "latin").write_bytes(b"# \xff")
    with pytest.raises(ConfigInvalid, match="not UTF-8 text at byte 2"):
        load_config(tmp_path / "latin")


@given(st.binary(max_size=60))
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    file = tmp_path_factory.mktemp("config") / "arneb.toml"
    file.write_bytes(raw)
    try:
        load_config(file)
    except ConfigInvalid as error:
        assert str(file) in str(error)


def test_a_wrong_flag_is_named() -> None:
    with pytest.raises(ConfigInvalid, match="--amqp: expected a port from 0 to 65535"):
        load_config(None, amqp="127.0.0.1:99999")


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("", Retention(0, 0)),
        ("[retention]\ntime_s = 60", Retention(60_000, -1)),
        ("[retention]\nbytes = 5", Retention(-1, 5)),
        ("[retention]\ntime_s = -1\nbytes = -1", Retention(-1, -1)),
    ],
)
def test_omitted_retention_bounds_are_unlimited(
    tmp_path: Path, table: str, expected: Retention
) -> None:
    file = tmp_path / "arneb.toml"
    file.write_text(table)
    assert load_config(file).retention.retention == expected


def test_a_negative_retention_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "arneb.toml"
    file.write_text("[retention]\ntime_s = -2")
    with pytest.raises(ConfigInvalid, match=r"retention: expected -1 or more, got time_s = -2"):
        load_config(file)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ('[amqp.tls]\nlisten = "127.0.0.1:0"', "certificate"),
        ('[amqp.tls]\nlisten = "127.0.0.1:0"\ncertificate = "none.pem"', "amqp.tls"),
        ('[pulsar.tls]\nlisten = "127.0.0.1:0"\ncertificate = "none.pem"', "pulsar.tls"),
        ("[pulsar.tls]\nrequire_client_certificate = true", "client_ca"),
        ('[pulsar.authentication]\nmethods = ["tls"]', "client_ca"),
        ('[pulsar.authentication]\nmethods = ["token"]', "token_secret_key"),
        (
            '[pulsar.authentication]\nmethods = ["token"]\ntoken_secret_key = "none"',
            "token_secret_key: cannot read",
        ),
        ('[pulsar]\nschema_compatibility = "SOME"', "schema_compatibility"),
        ('[pulsar]\nadvertised_tls_url = "pulsar://x:1"', "advertised_tls_url"),
    ],
)
def test_ports_that_cannot_be_protected_that_way_are_refused(
    tmp_path: Path, table: str, why: str
) -> None:
    file = tmp_path / "arneb.toml"
    file.write_text(table)
    with pytest.raises(ConfigInvalid, match=why):
        load_config(file)


def test_how_delays_are_tracked(tmp_path: Path) -> None:
    file = tmp_path / "arneb.toml"
    file.write_text('[delayed]\ntracker = "memory"\ntick_ms = 1_000')
    assert load_config(file).delayed == DelayedSettings(TrackerKind.MEMORY, tick_ms=1_000)
    assert load_config(None).delayed.tracker is TrackerKind.BUCKET
