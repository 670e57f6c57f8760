"""RabbitMQ's settings: each is used, ignored with a reason, or refused."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb.settings.config import Address, load_config
from arneb.settings.process import LogFormat, LogLevel
from arneb.settings.rabbitmq.conf import TAKEN, translate
from arneb.settings.rabbitmq.ignored import IGNORED
from arneb.settings.sizes import parse_bytes
from arneb.settings.table import ConfigInvalid
from arneb_amqp.config import GUEST, QUEUE_TYPES, CertificateLogin
from arneb_amqp.topology.queue_types import QueueType
from arneb_core.access.records import OperatorPolicy


def translated(text: str) -> dict[str, Any]:
    return translate(text, "f", lambda: 1000).table


def test_no_password_is_shown() -> None:
    found = translate("default_pass = hush\n", "f", lambda: 1000)
    assert "hush" in str(found.table)
    assert "hush" not in repr(found)


def test_a_policy_without_settings_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "rabbitmq.conf"
    file.write_text("default_policies.operator.p.queue_pattern = x\n")
    with pytest.raises(ConfigInvalid, match="expected something that policy 'p' sets"):
        load_config(None, rabbitmq_conf=file)


def test_every_type_of_queue_may_be_the_default() -> None:
    assert [each.value for each in QueueType] == list(QUEUE_TYPES)


def test_defaults_of_new_vhosts_are_used(tmp_path: Path) -> None:
    file = tmp_path / "rabbitmq.conf"
    file.write_text(
        "default_limits.vhosts.2.pattern = ^dev\n"
        "default_limits.vhosts.2.max_connections = 10\n"
        "default_limits.vhosts.1.max_queues = 1000\n"
        "default_limits.vhosts.2.max_queues = 0\n"
        "default_policies.operator.ttl.vhost_pattern = ^dev\n"
        "default_policies.operator.ttl.queue_pattern = ^amq\\.\n"
        "default_policies.operator.ttl.expires = 1800000\n"
        "default_policies.operator.ttl.message_ttl = 1h30m\n"
        "default_policies.operator.ttl.max_in_memory_length = 5\n"
        "default_policies.operator.ttl.classic_queues.ha_mode = exactly\n"
        "default_policies.operator.big.max_length_bytes = 2GB\n"
        "default_queue_type = rabbit_quorum_queue\n"
    )
    amqp = load_config(None, rabbitmq_conf=file).amqp
    assert amqp.default_queue_type == "quorum"
    defaults = amqp.vhost_defaults
    assert defaults.limits_of("dev1") == {"max-connections": 10, "max-queues": 0}
    assert defaults.limits_of("shop") == {"max-queues": 1000}
    ttl = OperatorPolicy("dev1", "ttl", "^amq\\.", {"expires": 1_800_000, "message-ttl": 5_400_000})
    big = {"max-length-bytes": 2_000_000_000}
    assert list(defaults.policies_of("dev1")) == [ttl, OperatorPolicy("dev1", "big", ".*", big)]
    assert list(defaults.policies_of("shop")) == [OperatorPolicy("shop", "big", ".*", big)]
    notes = translate(file.read_text(), "f", lambda: 1000).notes
    assert len(notes) == 2
    assert "default_policies.operator.ttl.max_in_memory_length is ignored" in notes[0]


def test_a_typical_file(tmp_path: Path) -> None:
    file = tmp_path / "rabbitmq.conf"
    file.write_text(
        "# comment\n"
        "listeners.tcp.default = 5673\n"
        "default_user = admin\ndefault_pass = 'a # b'\ndefault_vhost = main\n"
        "default_user_tags.administrator = true\n"
        "default_permissions.configure = .*\n"
        "vm_memory_high_watermark.relative = 0.6\ndisk_free_limit.absolute = 2GB\n"
        "heartbeat = 30\nframe_max = 65536\nchannel_max = 100\nmax_message_size = 536870912\n"
        "consumer_timeout = 900000\nhandshake_timeout = 5000\nconnection_max = infinity\n"
        "log.console.level = debug\nlog.console.formatter = json\nlog.dir = /l\nlog.file = r.log\n"
        "management.tcp.port = 15673\nmanagement.tcp.ip = 127.0.0.1\n"
        "ssl_cert_login_from = common_name\nauth_mechanisms.1 = EXTERNAL\n"
        "auth_backends.2 = internal\nauth_backends.1 = rabbit_auth_backend_http\n"
        "auth_http.user_path = http://h/u\n"
        "credential_validator.validation_backend = rabbit_credential_validator_password_regexp\n"
        "credential_validator.min_length = 12\ncredential_validator.regexp = ^[a-z]\n"
    )
    config = load_config(None, rabbitmq_conf=file)
    assert config.amqp.listen == Address("*", 5673)
    [user] = config.amqp.users
    assert (user.name, user.password, user.loopback_only) == ("admin", "a # b", False)
    assert user.tags == ("administrator",)
    assert config.amqp.vhosts == ("main",)
    assert config.alarms.memory_high_watermark == 0.6
    assert config.alarms.disk_free_min_bytes == 2_000_000_000
    assert (config.amqp.heartbeat_s, config.amqp.frame_bytes_max) == (30, 65536)
    assert (config.amqp.channel_max, config.amqp.message_bytes_max) == (100, 536_870_912)
    assert (config.amqp.consumer_timeout_s, config.amqp.handshake_s) == (900, 5)
    assert config.amqp.connections_max == -1
    assert (config.amqp.password_length_min, config.amqp.password_pattern) == (12, "^[a-z]")
    assert (config.log.level, config.log.format) == (LogLevel.DEBUG, LogFormat.JSON)
    assert config.log.file == Path("/l/r.log")
    assert config.http.listen == Address("127.0.0.1", 15673)
    assert config.amqp.certificate_login is CertificateLogin.COMMON_NAME
    assert config.amqp.external_login
    assert config.logins.backends == ("http", "internal")
    assert config.logins.http.user_url == "http://h/u"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("listeners.tcp = none", {"amqp": {"listen": "off"}}),
        ("listeners.tcp.1 = 127.0.0.1:5672", {"amqp": {"listen": "127.0.0.1:5672"}}),
        ("listeners.tcp.local = ::1:5672", {"amqp": {"listen": "[::1]:5672"}}),
        ("listeners.tcp.all = :::5672", {"amqp": {"listen": "*:5672"}}),
        ("disk_free_limit.relative = 1.5", {"alarms": {"disk_free_min_bytes": 1500}}),
        ("vm_memory_high_watermark = 0.3", {"alarms": {"memory_high_watermark": 0.3}}),
        ("consumer_timeout = undefined", {"amqp": {"consumer_timeout_s": 0.0}}),
    ],
)
def test_one_line(text: str, expected: dict[str, object]) -> None:
    assert translated(text) == expected


def test_authorities_count_only_where_clients_are_verified(tmp_path: Path) -> None:
    tls = "listeners.ssl.default = 5671\nssl_options.certfile = /c\nssl_options.keyfile = /k\n"
    ca = f"{tls}ssl_options.cacertfile = /ca\nssl_options.fail_if_no_peer_cert = true\n"
    files = {"listen": "*:5671", "certificate": "/c", "key": "/k"}
    assert translated(ca) == {"amqp": {"tls": files}}
    assert translated(f"{ca}ssl_options.verify = verify_none") == {"amqp": {"tls": files}}
    verified = {**files, "client_ca": "/ca", "require_client_certificate": True}
    assert translated(f"{ca}ssl_options.verify = verify_peer") == {"amqp": {"tls": verified}}


def test_the_api_and_metrics_have_listeners_of_their_own() -> None:
    files = "management.ssl.certfile = /c\nmanagement.ssl.keyfile = /k\n"
    both = f"{files}management.ssl.port = 15671\nmanagement.tcp.port = 15672\n"
    tls = {"certificate": "/c", "key": "/k", "listen": "*:15671"}
    assert translated(both)["http"] == {"tls": tls, "listen": "*:15672"}
    alone = f"{files}management.ssl.ip = 127.0.0.1\nmanagement.ssl.cacertfile = /ca"
    of_loopback = {**tls, "listen": "127.0.0.1:15671"}
    assert translated(alone)["http"] == {"tls": of_loopback, "listen": "off"}
    metrics = "prometheus.tcp.port = 9999\nprometheus.return_per_object_metrics = true\n"
    expected = {"listen": "*:9999", "per_object": True}
    assert translated(f"{metrics}prometheus.path = /metrics")["metrics"] == expected


def test_tls_versions_and_ciphers_are_used() -> None:
    text = (
        "listeners.ssl.default = 5671\nssl_options.certfile = /c\n"
        "ssl_options.versions.1 = tlsv1.3\nssl_options.versions.2 = tlsv1.2\n"
        "ssl_options.versions.3 = tlsv1.1\nssl_options.ciphers.1 = ECDHE-RSA-AES256-GCM-SHA384\n"
        "ssl_options.ciphers.2 = TLS_AES_256_GCM_SHA384\n"
        "ssl_options.ciphers.3 = ECDHE-RSA-AES128-GCM-SHA256\n"
    )
    found = translate(text, "f", lambda: 1)
    assert found.table["amqp"]["tls"] == {
        "listen": "*:5671",
        "certificate": "/c",
        "minimum_version": "TLSv1.2",
        "ciphers": "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-AES128-GCM-SHA256",
    }
    assert found.notes == ["TLSv1.1 for amqp.tls is ignored: TLS 1.2 and 1.3 are spoken"]
    only = "ssl_options.certfile = /c\nssl_options.versions.1 = tlsv1.3\n"
    assert translated(only)["amqp"]["tls"]["minimum_version"] == "TLSv1.3"


def test_further_users_are_added_to_the_first(tmp_path: Path) -> None:
    file = tmp_path / "f.conf"
    file.write_text(
        "default_users.ops.password = o\ndefault_users.ops.tags = administrator, monitoring\n"
        "default_users.app.password = a\ndefault_users.app.read = .*\n"
    )
    users = load_config(None, rabbitmq_conf=file).amqp.users
    assert [(each.name, each.password, each.tags, each.loopback_only) for each in users] == [
        ("guest", "guest", ("administrator",), True),
        ("ops", "o", ("administrator", "monitoring"), False),
        ("app", "a", (), False),
    ]
    file.write_text(file.read_text() + "default_user = me\ndefault_pass = p\n")
    assert [each.name for each in load_config(None, rabbitmq_conf=file).amqp.users] == [
        "me", "ops", "app"
    ]  # fmt: skip


def test_tokens_and_definitions_are_found_where_the_file_says() -> None:
    found = translated(
        "auth_oauth2.preferred_username_claims.2 = email\n"
        "auth_oauth2.preferred_username_claims.1 = user_name\n"
        "auth_oauth2.signing_keys.k1 = /key.pem\nauth_oauth2.default_key = k1\n"
        "definitions.import_backend = local_filesystem\ndefinitions.local.path = /d.json\n"
        "proxy_protocol = true\nevent_exchange.vhost = /\n"
    )
    assert found == {
        "logins": {"oauth": {"public_key": "/key.pem", "username_claims": ["user_name", "email"]}},
        "load_definitions": "/d.json",
        "amqp": {"proxy_protocol": True, "event_exchange_vhost": "/"},
    }


def test_which_users_may_log_in_remotely(tmp_path: Path) -> None:
    file = tmp_path / "f.conf"
    for text, local in (
        ("", True),
        ("loopback_users = none", False),
        ("loopback_users.guest = false", False),
        ("default_pass = x", True),
    ):
        file.write_text(text)
        config = load_config(None, rabbitmq_conf=file)
        assert config.amqp.is_loopback_only(GUEST.name) is local, text
    file.write_text("loopback_users.other = true")
    assert load_config(None, rabbitmq_conf=file).amqp.is_loopback_only("other")
    # The image's variables name another user, whom the file does not name.
    file.write_text("loopback_users = none")
    environment = {"RABBITMQ_DEFAULT_USER": "me", "RABBITMQ_DEFAULT_PASS": "p"}
    config = load_config(None, rabbitmq_conf=file, environment=environment)
    assert [(each.name, each.password) for each in config.amqp.users] == [("me", "p")]


def test_ignored_settings_are_reported_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "10.conf").write_text("cluster_partition_handling = pause_minority\n")
    (tmp_path / "20.conf").write_text("listeners.tcp.1 = 5672\nlisteners.tcp.2 = 5673\n")
    (tmp_path / "ignored.txt").write_text("nonsense")
    notes: list[str] = []
    config = load_config(None, rabbitmq_conf=tmp_path, tell=notes.append)
    assert config.amqp.listen == Address("*", 5672)
    assert notes == [
        f"{tmp_path}: cluster_partition_handling is ignored: an Arneb broker is one node",
        f"{tmp_path}: listeners….2 = 5673 is ignored: amqp.listen is *:5672 already",
    ]


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("heartbeat = often", "line 1: heartbeat: expected a whole number, got 'often'"),
        ("heartbeet = 3", 'unknown key "heartbeet"; did you mean "heartbeat"?'),
        ("no value", "line 1: expected KEY = VALUE"),
        ("log.console.level = loud", "expected one of debug"),
        ("auth_backends.1 = ldap", "expected one of internal"),
        ("ssl_options.password = x", "keys with a passphrase are not read"),
        ("vm_memory_high_watermark.absolute = much", "expected bytes"),
        ("listeners.tcp.1 = here", "expected a port"),
        ("default_users.u.read = ^a", "name such users, and their permissions, in a file"),
        ("default_users.u.tags = x", "default_users.u: expected a password"),
        ("default_users.u.colour = x", 'unknown key "default_users.u.colour"'),
        ("management.disable_basic_auth = true", "it is how users of the API log in"),
        ("default_limits.vhosts.1.max_channels = 9", 'unknown key "default_limits.vhosts.1.max'),
        ("default_limits.vhosts.1.max_queues = many", "expected a whole number, got 'many'"),
        ("default_limits.vhosts.1.pattern = (", "invalid regular expression"),
        ("default_limits.max_queues = 9", 'unknown key "default_limits.max_queues"'),
        ("default_policies.operator.p.overflow = x", 'unknown key "default_policies.operator.p.ov'),
        ("default_policies.operator.p.expires = 1y", "expected a unit of ms, s, m, h, d, w, f"),
        ("default_policies.operator.p.expires = 0", "expected at least a millisecond"),
        ("default_queue_type = lazy", "expected one of classic, quorum, stream"),
        ("prometheus.path = /here", "Prometheus is told there"),
        ("ssl_options.versions.1 = sslv3", "expected one of tlsv1.3"),
        ("auth_oauth2.signing_keys.a = /a\nauth_oauth2.signing_keys.b = /b", "expected one key"),
    ],
)
def test_impossible_settings_are_refused_with_their_line(line: str, part: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        translated(line)
    assert part in str(caught.value)
    assert "x" not in str(caught.value).partition("ssl_options.password: ")[2][:1]


def test_no_key_is_both_used_and_ignored() -> None:
    for key in TAKEN:
        stem = key.rstrip("*")
        assert not any(stem.startswith(each) for each in IGNORED if not stem.startswith("ssl_opt"))


keys = st.builds(
    lambda key, rest: key.replace("*", rest) if "*" in key else key,
    st.sampled_from([*TAKEN, *IGNORED]),
    st.sampled_from(["", ".1", ".default", ".absolute", "1.password", "u.tags", "p.max_length"])
    | st.text(max_size=5),
)
values = st.one_of(
    st.sampled_from(["true", "false", "none", "5672", "::1", "0.4", "2GB", "/a", "(", "internal"]),
    st.integers(-1, 1 << 40).map(str),
    st.text(max_size=8),
)
lines = st.builds("{} = {}".format, keys, values) | st.text(max_size=8)


@given(st.lists(lines, max_size=4).map("\n".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = translate(text, "f", lambda: 1)
    except ConfigInvalid:
        return
    assert isinstance(found.table, dict)


@given(st.integers(0, 10**12), st.sampled_from(["", "kB", "MiB", "g", "GB", "K"]))
def test_sizes(number: int, unit: str) -> None:
    powers = {"": 1, "kB": 1000, "MiB": 2**20, "g": 2**30, "GB": 10**9, "K": 1024}
    assert parse_bytes(f"{number}{unit}") == number * powers[unit]
