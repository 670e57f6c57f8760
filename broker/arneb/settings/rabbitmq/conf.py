"""rabbitmq.conf: translates RabbitMQ's own file into our settings.

The rule: a key is translated, or ignored and reported with the reason, or refused; nothing is
ignored silently, and an impossible value is refused with its line number.
"""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from arneb.settings.rabbitmq.file import ConfFile, Table, Take, Translation, setting
from arneb.settings.rabbitmq.ignored import IGNORED
from arneb.settings.rabbitmq.tls import finish_tls, tls_options
from arneb.settings.rabbitmq.values import (
    address_in,
    flag_in,
    limit_in,
    one_of,
    part_in,
    path_in,
    seconds_in,
    whole_in,
)
from arneb.settings.rabbitmq.vhosts import QUEUE_TYPES, VHOST_DEFAULTS
from arneb.settings.sizes import parse_bytes
from arneb.settings.table import ConfigInvalid

LINE: Final = re.compile(r"\s*([A-Za-z0-9_.\-$/\\]+)\s*=\s*(.*?)\s*")

BACKENDS: Final[Mapping[str, str]] = {
    "internal": "internal",
    "rabbit_auth_backend_internal": "internal",
    "http": "http",
    "rabbit_auth_backend_http": "http",
    "oauth": "oauth",
    "oauth2": "oauth",
    "rabbit_auth_backend_oauth2": "oauth",
}

LEVELS: Final[Mapping[str, str]] = {
    "debug": "debug", "info": "info", "notice": "info", "warning": "warning", "error": "error",
    "critical": "error", "alert": "error", "emergency": "error", "none": "error",
}  # fmt: skip


def _listener(dotted: str) -> Take:
    def take(file: ConfFile, rest: str, value: str) -> None:
        before = file.get(dotted)
        wanted = address_in(value)
        if before not in (None, "off", wanted):
            file.note(f"listeners…{rest} = {value}", f"{dotted} is {before} already")
            return
        file.set(dotted, wanted)

    return take


def _memory(file: ConfFile, rest: str, value: str) -> None:
    if rest == ".absolute":
        file.set("alarms.memory_high_watermark_bytes", parse_bytes(value))
    elif rest in ("", ".relative"):
        file.set("alarms.memory_high_watermark", part_in(value))
    else:
        raise KeyError


def _disk(file: ConfFile, rest: str, value: str) -> None:
    if rest == ".absolute":
        file.set("alarms.disk_free_min_bytes", parse_bytes(value))
    elif rest == ".relative":
        file.set("alarms.disk_free_min_bytes", int(part_in(value) * file.memory_bytes()))
    else:
        raise KeyError


def _loopback(file: ConfFile, rest: str, value: str) -> None:
    if rest == "" and value == "none":
        file.loopback["guest"] = False
    elif rest:
        file.loopback[rest.removeprefix(".")] = flag_in(value)
    else:
        raise ValueError(f"expected none, got {value!r}")


def _user(name: str) -> Take:
    def take(file: ConfFile, _: str, value: str) -> None:
        file.user[name] = value

    return take


def _tag(file: ConfFile, rest: str, value: str) -> None:
    if flag_in(value):
        file.tags.append(rest)


def _permission(file: ConfFile, rest: str, value: str) -> None:
    if value != ".*":
        file.note(f"default_permissions.{rest} = {value}", "the first user may do everything")


def _message_bytes(file: ConfFile, _: str, value: str) -> None:
    most = parse_bytes(value)
    file.set("amqp.message_bytes_max", most)
    for name, default in (("partial_bytes_max", 2 << 27), ("transaction_bytes_max", 2 << 27)):
        if most > default:
            file.set(f"amqp.{name}", most)


def _backend(file: ConfFile, rest: str, value: str) -> None:
    number, _, part = rest.partition(".")
    if part and part != "authn":
        file.note(f"auth_backends.{rest}", "who lets somebody in also says what he may do")
        return
    file.backends[number] = one_of(BACKENDS)(value)


def _mechanism(file: ConfFile, _: str, value: str) -> None:
    file.mechanisms.add(one_of({each: each for each in ("PLAIN", "AMQPLAIN", "EXTERNAL")})(value))


def _log_file(file: ConfFile, _: str, value: str) -> None:
    if value == "false":
        return
    if value == "true":
        raise ValueError("expected the name of a file, or false")
    file.set("log.file", value)


def _console(file: ConfFile, _: str, value: str) -> None:
    if not flag_in(value):
        file.note("log.console = false", "what is not written to log.file goes to standard error")


def _log_dir(file: ConfFile, _: str, value: str) -> None:
    file.log_dir = Path(value)


def _part(dotted: str, port: int, part: int) -> Take:
    """Take one half of an address; the other half stays as it was, or is the default."""

    def take(file: ConfFile, _: str, value: str) -> None:
        before = file.get(dotted)
        host, _, at = (before if before not in (None, "off") else f"*:{port}").rpartition(":")
        file.set(dotted, address_in(f"{value}:{at}" if part == 0 else f"{host}:{value}"))

    return take


def _more_users(file: ConfFile, rest: str, value: str) -> None:
    name, _, part = rest.partition(".")
    user = file.users.setdefault(name, {"name": name, "tags": []})
    if part == "password":
        user["password"] = value
    elif part == "tags":
        user["tags"] = [each.strip() for each in value.split(",") if each.strip()]
    elif part not in ("vhost_pattern", "configure", "read", "write"):
        raise KeyError
    elif value != ".*":
        raise ValueError(
            "who is named in settings may do everything everywhere: name such users, and their "
            "permissions, in a file for load_definitions"
        )


def _signing_key(file: ConfFile, rest: str, value: str) -> None:
    if file.get("logins.oauth.public_key") not in (None, path_in(value)):
        raise ValueError("expected one key: publish several, and name auth_oauth2.jwks_url")
    file.set("logins.oauth.public_key", path_in(value))


def _claim(file: ConfFile, rest: str, value: str) -> None:
    file.claims[rest] = value


def _expected(only: str, why: str) -> Take:
    """Take a key that may have one value only."""

    def take(file: ConfFile, _: str, value: str) -> None:
        if value != only:
            raise ValueError(f"expected {only}, got {value!r}: {why}")

    return take


_LOGIN_FROM: Final = {
    "distinguished_name": "distinguished_name",
    "common_name": "common_name",
    "subject_alternative_name": "subject_alternative_name",
    "subject_alt_name": "subject_alternative_name",
}
_SAN_TYPES: Final = {each: each for each in ("dns", "ip", "email", "uri", "other_name")}

TAKEN: Final[Mapping[str, Take]] = {
    "listeners.tcp*": _listener("amqp.listen"),
    "listeners.ssl*": _listener("amqp.tls.listen"),
    **{f"ssl_options.{name}": take for name, take in tls_options("amqp.tls").items()},
    **{f"management.ssl.{name}": take for name, take in tls_options("http.tls").items()},
    "management.ssl.ip": _part("http.tls.listen", 15671, 0),
    "management.ssl.port": _part("http.tls.listen", 15671, 1),
    "default_user": _user("name"),
    "default_pass": _user("password"),
    "default_vhost": lambda file, _, value: file.set("amqp.vhosts", [value]),
    "default_users.*": _more_users,
    "default_user_tags.*": _tag,
    **VHOST_DEFAULTS,
    "default_queue_type": setting("amqp.default_queue_type", one_of(QUEUE_TYPES)),
    "default_permissions.*": _permission,
    "loopback_users*": _loopback,
    "load_definitions": setting("load_definitions", path_in),
    "definitions.import_backend": _expected("local_filesystem", "definitions are read from files"),
    "definitions.local.path": setting("load_definitions", path_in),
    "management.load_definitions": setting("load_definitions", path_in),
    "vm_memory_high_watermark*": _memory,
    "disk_free_limit*": _disk,
    "heartbeat": setting("amqp.heartbeat_s", whole_in),
    "frame_max": setting("amqp.frame_bytes_max", whole_in),
    "channel_max": setting("amqp.channel_max", whole_in),
    "max_message_size": _message_bytes,
    "consumer_timeout": setting("amqp.consumer_timeout_s", seconds_in),
    "handshake_timeout": setting("amqp.handshake_s", seconds_in),
    "connection_max": setting("amqp.connections_max", limit_in),
    "channel_max_per_node": setting("amqp.node_channels_max", limit_in),
    "consumer_max_per_channel": setting("amqp.channel_consumers_max", limit_in),
    "credential_validator.min_length": setting("amqp.password_length_min", whole_in),
    "credential_validator.regexp": setting("amqp.password_pattern", str),
    "vhost_max": setting("amqp.vhosts_max", limit_in),
    "cluster_queue_limit": setting("amqp.queues_max", limit_in),
    "proxy_protocol": setting("amqp.proxy_protocol", flag_in),
    "event_exchange.vhost": setting("amqp.event_exchange_vhost", str),
    "cluster_name": setting("amqp.cluster_name", str),
    "ssl_cert_login_from": setting("amqp.certificate_login", one_of(_LOGIN_FROM)),
    "ssl_cert_login_san_type": setting("amqp.certificate_san_type", one_of(_SAN_TYPES)),
    "ssl_cert_login_san_index": setting("amqp.certificate_san_index", whole_in),
    "auth_mechanisms.*": _mechanism,
    "auth_backends.*": _backend,
    "auth_http.http_method": lambda file, _, value: file.set(
        "logins.http.post", one_of({"get": "get", "post": "post"})(value) == "post"
    ),
    "auth_http.user_path": setting("logins.http.user_url", str),
    "auth_http.vhost_path": setting("logins.http.vhost_url", str),
    "auth_http.resource_path": setting("logins.http.resource_url", str),
    "auth_http.topic_path": setting("logins.http.topic_url", str),
    "auth_http.request_timeout": setting("logins.http.timeout_s", seconds_in),
    "auth_oauth2.resource_server_id": setting("logins.oauth.resource_server_id", str),
    "auth_oauth2.jwks_url": setting("logins.oauth.jwks_url", str),
    "auth_oauth2.issuer": setting("logins.oauth.issuer", str),
    "auth_oauth2.verify_aud": setting("logins.oauth.verify_audience", flag_in),
    "auth_oauth2.additional_scopes_key": setting("logins.oauth.additional_scopes_key", str),
    "auth_oauth2.preferred_username_claims.*": _claim,
    "auth_oauth2.signing_keys.*": _signing_key,
    "log.console": _console,
    "log.console.level": setting("log.level", one_of(LEVELS)),
    "log.file.level": setting("log.level", one_of(LEVELS)),
    "log.default.level": setting("log.level", one_of(LEVELS)),
    "log.console.formatter": setting("log.format", one_of({"json": "json", "plaintext": "text"})),
    "log.file.formatter": setting("log.format", one_of({"json": "json", "plaintext": "text"})),
    "log.file": _log_file,
    "log.dir": _log_dir,
    "management.tcp.ip": _part("http.listen", 15672, 0),
    "management.tcp.port": _part("http.listen", 15672, 1),
    "management.listener.ip": _part("http.listen", 15672, 0),
    "management.listener.port": _part("http.listen", 15672, 1),
    "management.path_prefix": setting("http.path_prefix", lambda value: value.rstrip("/")),
    "management.disable_basic_auth": _expected("false", "it is how users of the API log in"),
    "prometheus.tcp.ip": _part("metrics.listen", 15692, 0),
    "prometheus.tcp.port": _part("metrics.listen", 15692, 1),
    "prometheus.path": _expected("/metrics", "Prometheus is told there"),
    "prometheus.return_per_object_metrics": setting("metrics.per_object", flag_in),
    "management.http.max_body_size": setting("http.body_bytes_max", parse_bytes),
}
"""How each key is translated; a star stands for any rest of the key."""


def translate(
    text: str,
    where: str,
    memory_bytes: Callable[[], int],
    first_user: Mapping[str, Any] | None = None,
) -> Translation:
    """Translate a file's text; ``where`` names the file in errors. ``first_user`` is the first
    start's user unless the file names another. Raises :class:`ConfigInvalid`."""
    file = ConfFile(memory_bytes)
    file.user = dict(first_user or {})
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith(("#", "%%")):
            continue
        found = LINE.fullmatch(line)
        if found is None:
            raise ConfigInvalid(f"{where}, line {number}: expected KEY = VALUE")
        key, value = found.groups()
        if len(value) > 1 and value[0] == value[-1] == "'":
            value = value[1:-1]
        try:
            _take(file, key, value)
        except KeyError:
            raise ConfigInvalid(f"{where}, line {number}: {_unknown(key)}") from None
        except ValueError as error:
            raise ConfigInvalid(f"{where}, line {number}: {key}: {error}") from None
    try:
        _finish(file)
    except ValueError as error:
        raise ConfigInvalid(f"{where}: {error}") from None
    return file.result


def _take(file: ConfFile, key: str, value: str) -> None:
    if (take := TAKEN.get(key)) is not None:
        take(file, "", value)
        return
    for pattern, take in TAKEN.items():
        stem = pattern.removesuffix("*")
        if pattern.endswith("*") and key.startswith(stem):
            take(file, key.removeprefix(stem), value)
            return
    for stem, why in IGNORED.items():
        if key.startswith(stem):
            file.note(key, why)
            return
    raise KeyError(key)


def _finish(file: ConfFile) -> None:
    """Set what follows from several keys together."""
    if file.user or file.loopback:
        name = file.user.get("name", "guest")
        is_local = file.user.get("loopback_only", name == "guest")
        local = file.loopback.get(name, is_local)
        user: Table = {
            "name": name,
            "password": file.user.get("password", "guest"),
            "loopback_only": local,
        }
        if file.tags:
            user["tags"] = file.tags
        file.set("amqp.users", [user])
    if file.users:
        # RabbitMQ makes its default user beside those.
        first = file.get("amqp.users") or [
            {"name": "guest", "password": "guest", "loopback_only": True}
        ]
        without = [name for name, each in file.users.items() if "password" not in each]
        if without:
            raise ValueError(f"default_users.{without[0]}: expected a password")
        file.set("amqp.users", [*first, *file.users.values()])
    if others := [name for name, local in file.loopback.items() if local]:
        file.set("amqp.loopback_users", others)
    if file.backends:
        order = sorted(file.backends.items(), key=lambda each: (len(each[0]), each[0]))
        file.set("logins.backends", list(dict.fromkeys(name for _, name in order)))
    if "EXTERNAL" in file.mechanisms:
        file.set("amqp.external_login", True)
    for table in ("amqp.tls", "http.tls"):
        finish_tls(file, table)
    if file.get("http.tls.listen") and file.get("http.listen") is None:
        file.set("http.listen", "off")  # as in RabbitMQ, which then listens for TLS only
    if file.claims:
        order = sorted(file.claims.items(), key=lambda each: (len(each[0]), each[0]))
        file.set("logins.oauth.username_claims", [claim for _, claim in order])
    if (log := file.get("log.file")) is not None:
        file.set("log.file", str((file.log_dir / log).absolute()))


def _unknown(key: str) -> str:
    known = [each.rstrip("*.") for each in TAKEN]
    near = get_close_matches(key, known, n=1, cutoff=0.5)
    return f'unknown key "{key}"' + (f'; did you mean "{near[0]}"?' if near else "")


def read_files(path: Path) -> str:
    """Return the text of a file, or of all ``*.conf`` files in a directory, in order of name.
    Raises :class:`ConfigInvalid`."""
    files = sorted(path.glob("*.conf")) if path.is_dir() else [path]
    try:
        return "\n".join(each.read_text(encoding="utf-8") for each in files)
    except OSError as error:
        raise ConfigInvalid(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigInvalid(f"{path}: not UTF-8 text at byte {error.start}") from error
