"""The environment: each setting that is a single value has a variable."""

from pathlib import Path

import pytest

from arneb.settings.config import Address, Config, load_config
from arneb.settings.environment import merged, variable, variables
from arneb.settings.process import LogLevel
from arneb.settings.table import ConfigInvalid


def test_every_setting_has_a_variable_of_its_own() -> None:
    names = [variable(dotted) for dotted, _ in variables(Config)]
    assert len(names) == len(set(names))
    some = "DATA_DIR AMQP_LISTEN AMQP_TLS_CERTIFICATE HTTP_PULSAR_LISTEN ALARMS_CHECK_INTERVAL_S"
    assert {f"ARNEB_{each}" for each in some.split()} <= set(names)


def test_variables_override_the_file_and_the_command_line_overrides_both(tmp_path: Path) -> None:
    file = tmp_path / "arneb.toml"
    file.write_text("[amqp]\nlisten = 'off'\nheartbeat_s = 7\n[log]\nlevel = 'error'\n")
    environment = {
        "ARNEB_AMQP_LISTEN": "127.0.0.1:1",
        "ARNEB_PULSAR_LISTEN": "off",
        "ARNEB_AMQP_LOOPBACK_USERS": "a, b",
        "ARNEB_DEBUG_TURN_WATCHDOG": "true",
        "ARNEB_ALARMS_MEMORY_HIGH_WATERMARK": "0.5",
        "ARNEB_LOG_LEVEL": "INFO",
        "ARNEB_DATA_DIR": "d",
    }
    config = load_config(file, pulsar="127.0.0.1:2", environment=environment)
    assert config.amqp.listen == Address("127.0.0.1", 1)
    assert config.amqp.heartbeat_s == 7
    assert config.pulsar.listen == Address("127.0.0.1", 2)
    assert config.amqp.loopback_users == ("a", "b")
    assert config.debug.turn_watchdog
    assert config.alarms.memory_high_watermark == 0.5
    assert config.log.level is LogLevel.INFO
    assert config.data_dir == Path("d").absolute()


def test_variables_override_the_file_by_whichever_name_it_has(tmp_path: Path) -> None:
    file = tmp_path / "arneb.toml"
    file.write_text(
        "[pulsar]\nmaxProducersPerTopic = 3\nmaxConsumersPerTopic = 4\n"
        "[pulsar.defaults]\nttlDurationDefaultInSeconds = 5\n"
    )
    environment = {
        "ARNEB_PULSAR_MAX_PRODUCERS_PER_TOPIC": "7",
        "ARNEB_PULSAR_DEFAULTS_MESSAGE_TTL_S": "8",
    }
    config = load_config(file, environment=environment).pulsar
    assert (config.max_producers_per_topic, config.max_consumers_per_topic) == (7, 4)
    assert config.defaults.message_ttl_s == 8
    file.write_text("[pulsar]\nmaxProducersPerTopic = 3\nmax_producers_per_topic = 4\n")
    with pytest.raises(ConfigInvalid, match="given twice"):
        load_config(file)


def test_the_variables_of_rabbitmqs_image_are_understood() -> None:
    environment = {
        "RABBITMQ_DEFAULT_USER": "me",
        "RABBITMQ_DEFAULT_PASS": "p",
        "RABBITMQ_DEFAULT_VHOST": "v",
        "RABBITMQ_NODENAME": "ignored",
    }
    config = load_config(None, environment=environment)
    assert [(each.name, each.password) for each in config.amqp.users] == [("me", "p")]
    assert not config.amqp.is_loopback_only("me")
    assert config.amqp.vhosts == ("v",)


def test_misspelt_variables_are_reported_and_those_of_kubernetes_are_not() -> None:
    notes: list[str] = []
    environment = {
        "ARNEB_AMQP_LISTN": "x",
        "ARNEB_PORT": "tcp://10.0.0.1:5672",
        "ARNEB_PORT_5672_TCP_ADDR": "10.0.0.1",
        "ARNEB_SERVICE_HOST": "10.0.0.1",
        "ARNEB_SERVICE_PORT_AMQP": "5672",
        "ARNEB_URL": "http://x",
        "OTHER": "y",
    }
    load_config(None, environment=environment, tell=notes.append)
    [line] = notes
    assert "ARNEB_AMQP_LISTN is ignored" in line
    assert "did you mean ARNEB_AMQP_LISTEN?" in line


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ARNEB_AMQP_HEARTBEAT_S", "often"),
        ("ARNEB_AMQP_EXTERNAL_LOGIN", "yes"),
        ("ARNEB_AMQP_LISTEN", "here"),
        ("ARNEB_LOG_LEVEL", "loud"),
    ],
)
def test_an_impossible_value_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigInvalid):
        load_config(None, environment={name: value})


def test_tables_are_merged() -> None:
    first = {"a": {"b": 1, "c": [1]}, "d": 1}
    assert merged(first, {"a": {"c": [2]}, "e": 2}) == {
        "a": {"b": 1, "c": [2]}, "d": 1, "e": 2,
    }  # fmt: skip
    assert first == {"a": {"b": 1, "c": [1]}, "d": 1}
