"""rabbitmq.conf: RabbitMQ's own file, as the settings that it comes to here.

The rule: a key is taken, or it is ignored and said so with the reason, or it is refused; nothing is
ignored silently, and a value that cannot be is refused with the line where it stands.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from arneb.rabbitmq_ignored import IGNORED
from arneb.rabbitmq_values import (
    address_in,
    flag_in,
    limit_in,
    one_of,
    part_in,
    path_in,
    seconds_in,
    whole_in,
)
from arneb.settings import ConfigInvalid
from arneb.sizes import parse_bytes

Table = dict[str, Any]

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


@dataclass
class Translation:
    """What a file comes to."""

    table: Table = field(default_factory=dict)
    """Settings, as they would stand in a TOML file."""
    notes: list[str] = field(default_factory=list)
    """What is ignored, one line each."""


class _File:
    """One file as it is read."""

    def __init__(self, memory_bytes: Callable[[], int]) -> None:
        self.memory_bytes = memory_bytes
        self.result = Translation()
        self.user: Table = {}
        self.tags: list[str] = []
        self.loopback: dict[str, bool] = {}
        self.verifies = False
        self.backends: dict[str, str] = {}
        self.mechanisms: set[str] = set()
        self.log_dir = Path("/var/log/rabbitmq")

    def set(self, dotted: str, value: Any) -> None:
        """One setting."""
        table = self.result.table
        *tables, name = dotted.split(".")
        for each in tables:
            table = table.setdefault(each, {})
        table[name] = value

    def get(self, dotted: str) -> Any:
        table: Any = self.result.table
        for each in dotted.split("."):
            table = table.get(each, {}) if isinstance(table, dict) else {}
        return None if table == {} else table

    def note(self, key: str, why: str) -> None:
        """Something is ignored."""
        self.result.notes.append(f"{key} is ignored: {why}")


Take = Callable[[_File, str, str], None]
"""Takes a value; the text in between is what the key ends in."""


def _setting(dotted: str, read: Callable[[str], Any]) -> Take:
    return lambda file, _, value: file.set(dotted, read(value))


def _listener(dotted: str) -> Take:
    def take(file: _File, rest: str, value: str) -> None:
        before = file.get(dotted)
        wanted = address_in(value)
        if before not in (None, "off", wanted):
            file.note(f"listeners…{rest} = {value}", f"{dotted} is {before} already")
            return
        file.set(dotted, wanted)

    return take


def _memory(file: _File, rest: str, value: str) -> None:
    if rest == ".absolute":
        file.set("alarms.memory_high_watermark_bytes", parse_bytes(value))
    elif rest in ("", ".relative"):
        file.set("alarms.memory_high_watermark", part_in(value))
    else:
        raise KeyError


def _disk(file: _File, rest: str, value: str) -> None:
    if rest == ".absolute":
        file.set("alarms.disk_free_min_bytes", parse_bytes(value))
    elif rest == ".relative":
        file.set("alarms.disk_free_min_bytes", int(part_in(value) * file.memory_bytes()))
    else:
        raise KeyError


def _loopback(file: _File, rest: str, value: str) -> None:
    if rest == "" and value == "none":
        file.loopback["guest"] = False
    elif rest:
        file.loopback[rest.removeprefix(".")] = flag_in(value)
    else:
        raise ValueError(f"expected none, got {value!r}")


def _user(name: str) -> Take:
    def take(file: _File, _: str, value: str) -> None:
        file.user[name] = value

    return take


def _tag(file: _File, rest: str, value: str) -> None:
    if flag_in(value):
        file.tags.append(rest)


def _permission(file: _File, rest: str, value: str) -> None:
    if value != ".*":
        file.note(f"default_permissions.{rest} = {value}", "the first user may do everything")


def _message_bytes(file: _File, _: str, value: str) -> None:
    most = parse_bytes(value)
    file.set("amqp.message_bytes_max", most)
    for name, default in (("partial_bytes_max", 2 << 27), ("transaction_bytes_max", 2 << 27)):
        if most > default:
            file.set(f"amqp.{name}", most)


def _verify(file: _File, _: str, value: str) -> None:
    file.verifies = one_of({"verify_peer": "peer", "verify_none": "none"})(value) == "peer"


def _key_password(file: _File, _: str, value: str) -> None:
    raise ValueError("keys with a passphrase are not read: keep the key in a file without one")


def _backend(file: _File, rest: str, value: str) -> None:
    number, _, part = rest.partition(".")
    if part and part != "authn":
        file.note(f"auth_backends.{rest}", "who lets somebody in also says what he may do")
        return
    file.backends[number] = one_of(BACKENDS)(value)


def _mechanism(file: _File, _: str, value: str) -> None:
    file.mechanisms.add(one_of({each: each for each in ("PLAIN", "AMQPLAIN", "EXTERNAL")})(value))


def _log_file(file: _File, _: str, value: str) -> None:
    if value == "false":
        return
    if value == "true":
        raise ValueError("expected the name of a file, or false")
    file.set("log.file", value)


def _console(file: _File, _: str, value: str) -> None:
    if not flag_in(value):
        file.note("log.console = false", "what is not written to log.file goes to standard error")


def _log_dir(file: _File, _: str, value: str) -> None:
    file.log_dir = Path(value)


def _management(part: int) -> Take:
    def take(file: _File, _: str, value: str) -> None:
        host, _, port = (file.get("http.listen") or "*:15672").rpartition(":")
        address = address_in(f"{value}:{port}" if part == 0 else f"{host}:{value}")
        file.set("http.listen", address)

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
    "ssl_options.cacertfile": _setting("amqp.tls.client_ca", path_in),
    "ssl_options.certfile": _setting("amqp.tls.certificate", path_in),
    "ssl_options.keyfile": _setting("amqp.tls.key", path_in),
    "ssl_options.password": _key_password,
    "ssl_options.verify": _verify,
    "ssl_options.fail_if_no_peer_cert": _setting("amqp.tls.require_client_certificate", flag_in),
    "default_user": _user("name"),
    "default_pass": _user("password"),
    "default_vhost": lambda file, _, value: file.set("amqp.vhosts", [value]),
    "default_user_tags.*": _tag,
    "default_permissions.*": _permission,
    "loopback_users*": _loopback,
    "load_definitions": _setting("load_definitions", path_in),
    "management.load_definitions": _setting("load_definitions", path_in),
    "vm_memory_high_watermark*": _memory,
    "disk_free_limit*": _disk,
    "heartbeat": _setting("amqp.heartbeat_s", whole_in),
    "frame_max": _setting("amqp.frame_bytes_max", whole_in),
    "channel_max": _setting("amqp.channel_max", whole_in),
    "max_message_size": _message_bytes,
    "consumer_timeout": _setting("amqp.consumer_timeout_s", seconds_in),
    "handshake_timeout": _setting("amqp.handshake_s", seconds_in),
    "connection_max": _setting("amqp.connections_max", limit_in),
    "channel_max_per_node": _setting("amqp.node_channels_max", limit_in),
    "consumer_max_per_channel": _setting("amqp.channel_consumers_max", limit_in),
    "vhost_max": _setting("amqp.vhosts_max", limit_in),
    "cluster_queue_limit": _setting("amqp.queues_max", limit_in),
    "proxy_protocol": _setting("amqp.proxy_protocol", flag_in),
    "event_exchange.vhost": _setting("amqp.event_exchange_vhost", str),
    "cluster_name": _setting("amqp.cluster_name", str),
    "ssl_cert_login_from": _setting("amqp.certificate_login", one_of(_LOGIN_FROM)),
    "ssl_cert_login_san_type": _setting("amqp.certificate_san_type", one_of(_SAN_TYPES)),
    "ssl_cert_login_san_index": _setting("amqp.certificate_san_index", whole_in),
    "auth_mechanisms.*": _mechanism,
    "auth_backends.*": _backend,
    "auth_http.http_method": lambda file, _, value: file.set(
        "logins.http.post", one_of({"get": "get", "post": "post"})(value) == "post"
    ),
    "auth_http.user_path": _setting("logins.http.user_url", str),
    "auth_http.vhost_path": _setting("logins.http.vhost_url", str),
    "auth_http.resource_path": _setting("logins.http.resource_url", str),
    "auth_http.topic_path": _setting("logins.http.topic_url", str),
    "auth_http.request_timeout": _setting("logins.http.timeout_s", seconds_in),
    "auth_oauth2.resource_server_id": _setting("logins.oauth.resource_server_id", str),
    "auth_oauth2.jwks_url": _setting("logins.oauth.jwks_url", str),
    "auth_oauth2.issuer": _setting("logins.oauth.issuer", str),
    "auth_oauth2.verify_aud": _setting("logins.oauth.verify_audience", flag_in),
    "auth_oauth2.additional_scopes_key": _setting("logins.oauth.additional_scopes_key", str),
    "log.console": _console,
    "log.console.level": _setting("log.level", one_of(LEVELS)),
    "log.file.level": _setting("log.level", one_of(LEVELS)),
    "log.default.level": _setting("log.level", one_of(LEVELS)),
    "log.console.formatter": _setting("log.format", one_of({"json": "json", "plaintext": "text"})),
    "log.file.formatter": _setting("log.format", one_of({"json": "json", "plaintext": "text"})),
    "log.file": _log_file,
    "log.dir": _log_dir,
    "management.tcp.ip": _management(0),
    "management.tcp.port": _management(1),
    "management.listener.ip": _management(0),
    "management.listener.port": _management(1),
    "management.http.max_body_size": _setting("http.body_bytes_max", parse_bytes),
}
"""What becomes of a key; with a star, also of all that begin so."""


def translate(
    text: str,
    where: str,
    memory_bytes: Callable[[], int],
    first_user: Mapping[str, Any] | None = None,
) -> Translation:
    """The settings that a file comes to. ``where`` names it in errors. ``first_user`` is the one of
    the first start unless the file names another. Raises :class:`ConfigInvalid`."""
    file = _File(memory_bytes)
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
    _finish(file)
    return file.result


def _take(file: _File, key: str, value: str) -> None:
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


def _finish(file: _File) -> None:
    """What follows from several keys together."""
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
    if others := [name for name, local in file.loopback.items() if local]:
        file.set("amqp.loopback_users", others)
    if file.backends:
        order = sorted(file.backends.items(), key=lambda each: (len(each[0]), each[0]))
        file.set("logins.backends", list(dict.fromkeys(name for _, name in order)))
    if "EXTERNAL" in file.mechanisms:
        file.set("amqp.external_login", True)
    tls = file.get("amqp.tls")
    if tls and not file.verifies:
        # Without verify_peer the authorities are not asked about anybody.
        tls.pop("client_ca", None)
        tls.pop("require_client_certificate", None)
    if tls and tls.get("listen", "off") == "off":
        tls.pop("listen", None)
    if (log := file.get("log.file")) is not None:
        file.set("log.file", str((file.log_dir / log).absolute()))


def _unknown(key: str) -> str:
    known = [each.rstrip("*.") for each in TAKEN]
    near = get_close_matches(key, known, n=1, cutoff=0.5)
    return f'unknown key "{key}"' + (f'; did you mean "{near[0]}"?' if near else "")


def read_files(path: Path) -> str:
    """The text of a file, or of all files ``*.conf`` of a directory in the order of their names.
    Raises :class:`ConfigInvalid`."""
    files = sorted(path.glob("*.conf")) if path.is_dir() else [path]
    try:
        return "\n".join(each.read_text(encoding="utf-8") for each in files)
    except OSError as error:
        raise ConfigInvalid(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigInvalid(f"{path}: not UTF-8 text at byte {error.start}") from error
