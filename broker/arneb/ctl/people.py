"""Users: accounts, permissions, topic permissions and limits.

The rule: the management API replaces a user or a vhost as a whole, so a command reads it first and
changes only what it names.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from secrets import token_bytes
from typing import Any, Final
from urllib.parse import urlencode

from arneb.ctl.exits import ExitCode, error, no_user, no_vhost
from arneb.ctl.session import TABLE_OPTIONS, Command, Session
from arneb.ctl.terms import Names
from arneb_core.access.passwords import SALT_BYTES, hash_password

VHOST: Final = frozenset({"vhost"})
LISTED: Final = VHOST | TABLE_OPTIONS


def _user(session: Session, name: str) -> dict[str, Any]:
    """Return the account. Raises the error for a missing user."""
    found: dict[str, Any] = session.of(no_user(name), "GET", "users", name)
    return found


def _change(session: Session, name: str, **changes: Any) -> None:
    """Change the named fields of the account; the others stay."""
    found = _user(session, name)
    body = {key: found[key] for key in ("password_hash", "hashing_algorithm", "tags")} | changes
    if "password" in changes:
        del body["password_hash"], body["hashing_algorithm"]
    session.put("users", name, body=body)


def _list_users(session: Session) -> None:
    session.says("Listing users ...")
    rows = [(each["name"], Names(tuple(each["tags"]))) for each in session.get("users")]
    session.output.rows(("user", "tags"), rows)


def _add_user(session: Session) -> None:
    name = session.arguments[0]
    session.says(f'Adding user "{name}" ...')
    password = session.secret(1)
    if session.api("GET", "users", name).is_done:
        raise error(ExitCode.SOFTWARE, f'User "{name}" already exists')
    if not password:
        raise error(ExitCode.DATA, "Error: user cannot be created: blank password")
    session.put("users", name, body={"password": password, "tags": []})
    session.says(
        "Done. Don't forget to grant the user permissions to some virtual hosts! "
        "See 'rabbitmqctl help set_permissions' to learn more."
    )


def _delete_user(session: Session) -> None:
    name = session.arguments[0]
    session.says(f'Deleting user "{name}" ...')
    session.of(no_user(name), "DELETE", "users", name)


def _change_password(session: Session) -> None:
    name = session.arguments[0]
    session.says(f'Changing password for user "{name}" ...')
    _change(session, name, password=session.secret(1))


def _clear_password(session: Session) -> None:
    name = session.arguments[0]
    session.says(f'Clearing password for user "{name}" ...')
    _change(session, name, password_hash="")


def _set_user_tags(session: Session) -> None:
    name, *tags = session.arguments
    session.says(f'Setting tags for user "{name}" to [{", ".join(tags)}] ...')
    _change(session, name, tags=tags)


def _authenticate(session: Session) -> None:
    name = session.arguments[0]
    session.says(f'Authenticating user "{name}" ...')
    form = urlencode({"username": name, "password": session.secret(1)})
    answer = session.ask("POST", "/api/login", form)
    if answer.status == 401:
        why = f"Error: failed to authenticate user \"{name}\"\nuser '{name}' - invalid credentials"
        raise error(ExitCode.DATA, why)
    session.checked(answer)
    session.output.text("Success")


def _hash_password(session: Session) -> None:
    password = session.secret(0)
    session.says("Will hash password")
    session.output.text(hash_password(password, token_bytes(SALT_BYTES)).text)


# Permissions


def _expect_both(session: Session, user: str) -> None:
    if session.api("GET", "users", user).status == 404:
        raise error(ExitCode.NO_USER, f"User {user} does not exist")
    if session.api("GET", "vhosts", session.vhost).status == 404:
        raise error(ExitCode.UNAVAILABLE, f"Virtual host {session.vhost} does not exist")


def _of_vhost(kind: str, columns: Sequence[str]) -> Callable[[Session], None]:
    """Return a command that lists the permissions in a vhost."""

    def listed(session: Session) -> None:
        session.says(f'Listing {kind.replace("-", " ")} for vhost "{session.vhost}" ...')
        missing = no_vhost(session.vhost)
        _rows(session, columns, session.of(missing, "GET", "vhosts", session.vhost, kind))

    return listed


def _of_user(kind: str, columns: Sequence[str]) -> Callable[[Session], None]:
    """Return a command that lists the permissions of a user."""

    def listed(session: Session) -> None:
        name = session.arguments[0]
        session.says(f'Listing {kind.replace("-", " ")} for user "{name}" ...')
        _rows(session, columns, session.of(no_user(name), "GET", "users", name, kind))

    return listed


def _rows(session: Session, columns: Sequence[str], found: Sequence[Mapping[str, Any]]) -> None:
    session.output.rows(columns, [[each[name] for name in columns] for each in found])


def _set_permissions(session: Session) -> None:
    user, configure, write, read = session.arguments
    session.says(f'Setting permissions for user "{user}" in vhost "{session.vhost}" ...')
    _expect_both(session, user)
    body = {"configure": configure, "write": write, "read": read}
    session.put("permissions", session.vhost, user, body=body)


def _set_permissions_globally(session: Session) -> None:
    user, configure, write, read = session.arguments
    session.says(f'Setting permissions for user "{user}" in all virtual hosts ...')
    if session.api("GET", "users", user).status == 404:
        raise error(ExitCode.NO_USER, f"User {user} does not exist")
    body = {"configure": configure, "write": write, "read": read}
    for vhost in session.get("vhosts"):
        session.put("permissions", vhost["name"], user, body=body)


def _clear_permissions(session: Session) -> None:
    user = session.arguments[0]
    session.says(f'Clearing permissions for user "{user}" in vhost "{session.vhost}" ...')
    _expect_both(session, user)
    answer = session.api("DELETE", "permissions", session.vhost, user)
    if answer.status != 404:  # there are none to clear
        session.checked(answer)


def _set_topic_permissions(session: Session) -> None:
    user, exchange, write, read = session.arguments
    where = f'for user "{user}" in vhost "{session.vhost}"'
    session.says(f'Setting topic permissions on "{exchange}" {where} ...')
    _expect_both(session, user)
    body = {"exchange": exchange, "write": write, "read": read}
    session.put("topic-permissions", session.vhost, user, body=body)


def _clear_topic_permissions(session: Session) -> None:
    user, *exchange = session.arguments
    where = f'for user "{user}" in vhost "{session.vhost}"'
    what = f' on "{exchange[0]}"' if exchange else ""
    session.says(f"Clearing topic permissions{what} {where} ...")
    _expect_both(session, user)
    answer = session.api("DELETE", "topic-permissions", session.vhost, user, *exchange)
    if answer.status != 404:
        session.checked(answer)


# Limits


def _list_user_limits(session: Session) -> None:
    if "global" in session.options or "user" not in session.options:
        session.says("Listing limits for all users ...")
        rows = [(each["user"], _json(each["value"])) for each in session.get("user-limits")]
        session.output.rows(("user", "limits"), rows)
        return
    name = session.options["user"]
    session.says(f'Listing limits for user "{name}" ...')
    _user(session, name)
    found = session.get("user-limits", name)
    text = _json(found[0]["value"]) if found else ""
    session.output.value({"node": session.node, "result": "ok", "value": text}, text)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _set_user_limits(session: Session) -> None:
    name, text = session.arguments
    session.says(f'Setting user limits to "{text}" for user "{name}" ...')
    if session.api("GET", "users", name).status == 404:
        raise error(ExitCode.UNAVAILABLE, f'{{:no_such_user, "{name}"}}')
    for key, value in limits_in(text).items():
        session.put("user-limits", name, key, body={"value": value})


def limits_in(text: str) -> dict[str, int]:
    """Parse limits from the command line. Raises :class:`.Failed`."""
    try:
        found = json.loads(text)
    except ValueError:
        raise error(ExitCode.UNAVAILABLE, "JSON decoding error. Reason: badarg") from None
    if not isinstance(found, dict):
        raise error(ExitCode.UNAVAILABLE, "JSON decoding error. Reason: expected an object")
    return found


USER_LIMITS: Final = ("max-connections", "max-channels")


def _clear_user_limits(session: Session) -> None:
    name, limit = session.arguments
    what = "all limits" if limit == "all" else f'"{limit}" limit'
    session.says(f'Clearing {what} for user "{name}" ...')
    _user(session, name)
    for each in USER_LIMITS if limit == "all" else (limit,):
        answer = session.api("DELETE", "user-limits", name, each)
        if answer.status != 404:
            session.checked(answer)


_PATTERNS: Final = ("configure", "write", "read")
_OF_TOPICS: Final = ("exchange", "write", "read")

COMMANDS: Final = (
    Command("list_users", "[--no-table-headers]", "List user names and tags", _list_users, 0, 0,
            TABLE_OPTIONS),
    Command("add_user", "<username> <password>", "Creates a new user in the internal database",
            _add_user, 1, 2),
    Command("delete_user", "<username>", "Removes a user from the internal database", _delete_user,
            1, 1),
    Command("change_password", "<username> <password>", "Changes the user password",
            _change_password, 1, 2),
    Command("clear_password", "<username>", "Clears (resets) password and disables password login "
            "for a user", _clear_password, 1, 1),
    Command("set_user_tags", "<username> <tag> [...]", "Sets user tags", _set_user_tags, 1),
    Command("authenticate_user", "<username> <password>", "Attempts to authenticate a user. Exits "
            "with a non-zero code if authentication fails.", _authenticate, 1, 2),
    Command("hash_password", "<cleartext_password>", "Hashes a plaintext password", _hash_password,
            0, 1, runs_stopped=True, asks=False),
    Command("list_permissions", "[--vhost <vhost>] [--no-table-headers]",
            "Lists user permissions in a virtual host",
            _of_vhost("permissions", ("user", *_PATTERNS)), 0, 0, LISTED),
    Command("list_user_permissions", "[--no-table-headers] <username>",
            "Lists permissions of a user across all virtual hosts",
            _of_user("permissions", ("vhost", *_PATTERNS)), 1, 1, TABLE_OPTIONS),
    Command("set_permissions", "[--vhost <vhost>] <username> <conf> <write> <read>",
            "Sets user permissions for a vhost", _set_permissions, 4, 4, VHOST),
    Command("set_permissions_globally", "<username> <conf> <write> <read>",
            "Sets user permissions for all virtual hosts", _set_permissions_globally, 4, 4),
    Command("clear_permissions", "[--vhost <vhost>] <username>",
            "Revokes user permissions for a vhost", _clear_permissions, 1, 1, VHOST),
    Command("list_topic_permissions", "[--vhost <vhost>] [--no-table-headers]",
            "Lists topic permissions in a virtual host",
            _of_vhost("topic-permissions", ("user", *_OF_TOPICS)), 0, 0, LISTED),
    Command("list_user_topic_permissions", "[--no-table-headers] <username>",
            "Lists user topic permissions",
            _of_user("topic-permissions", ("vhost", *_OF_TOPICS)), 1, 1, TABLE_OPTIONS),
    Command("set_topic_permissions", "[--vhost <vhost>] <username> <exchange> <write> <read>",
            "Sets user topic permissions for an exchange", _set_topic_permissions, 4, 4, VHOST),
    Command("clear_topic_permissions", "[--vhost <vhost>] <username> [<exchange>]",
            "Clears user topic permissions for a vhost or exchange", _clear_topic_permissions, 1, 2,
            VHOST),
    Command("list_user_limits", "[--user <username>] [--global]", "Displays configured user limits",
            _list_user_limits, 0, 0, frozenset({"user", "global"}) | TABLE_OPTIONS),
    Command("set_user_limits", "<username> <definition>", "Sets user limits", _set_user_limits, 2,
            2),
    Command("clear_user_limits", "<username> <limit> | all", "Clears limits of a user",
            _clear_user_limits, 2, 2),
)  # fmt: skip
