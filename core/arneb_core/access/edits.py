"""Edits: changes of the access catalogue that are made together or not at all.

The rule: an edit checks each request against the catalogue and its own earlier changes, and touches
nothing; the catalogue makes it durable and then applies it. What depends on something (a user's
permissions, everything about a vhost) goes in the same edit.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from arneb_core.access.belonging import EVERYTHING, Belonging
from arneb_core.access.defaults import NO_DEFAULTS, VhostDefaults
from arneb_core.access.errors import (
    InvalidAccess,
    LimitReached,
    NamespaceTaken,
    NoSuchUser,
    NoSuchVhost,
    NotSet,
)
from arneb_core.access.namespaces import proposed_namespace
from arneb_core.access.passwords import NO_PASSWORD, PasswordHash
from arneb_core.access.patterns import check_pattern
from arneb_core.access.records import (
    KINDS,
    AnyRecord,
    GlobalParameter,
    Key,
    Limits,
    OperatorPolicy,
    Parameter,
    Permission,
    Policy,
    Record,
    Seeded,
    TopicPermission,
    User,
    Vhost,
    encode,
    row_key,
)
from arneb_core.access.tables import Changed, Tables
from arneb_core.api.encoding.json_text import is_text

VHOST_LIMITS: Final = frozenset({"max-connections", "max-queues"})
USER_LIMITS: Final = frozenset({"max-connections", "max-channels"})
"""The known limits."""

UNLIMITED: Final = -1

Rows = list[tuple[str, bytes | None]]
"""Rows of the store; None deletes one."""

_OF_VHOST: Final = ((Parameter, 0), (Policy, 0), (OperatorPolicy, 0), (Permission, 1),
                    (TopicPermission, 1))  # fmt: skip
"""Kinds that go with their vhost, and which part of the key names the vhost."""


class Edit:
    """Changes to be made. Every method raises an :class:`.AccessError` for what is impossible."""

    def __init__(
        self,
        tables: Tables,
        vhosts_max: int = UNLIMITED,
        defaults: VhostDefaults = NO_DEFAULTS,
        belonging: Belonging = EVERYTHING,
    ) -> None:
        self._tables = tables
        self._vhosts_max = vhosts_max
        self._defaults = defaults
        self._belonging = belonging
        self._changed: dict[type[Record], dict[Key, Record | None]] = {kind: {} for kind in KINDS}
        """By kind, so that finding a vhost in a large import does not search the users."""

    def __repr__(self) -> str:
        return f"<Edit of {len(self)} records>"

    def __len__(self) -> int:
        return sum(map(len, self._changed.values()))

    # What it comes to

    @property
    def changed(self) -> list[Changed]:
        """Every record that is changed, added or removed."""
        changes = (
            Changed(self._tables.get(kind, *key), after)
            for kind, records in self._changed.items()
            for key, after in records.items()
        )
        return [each for each in changes if each.before != each.after]

    @property
    def rows(self) -> Rows:
        """The same changes as rows of the store."""
        return self.written()[1]

    def written(self) -> tuple[list[Changed], Rows]:
        """Return both at once."""
        changed = self.changed
        rows = [
            (row_key(type(record), record.key), None if after is None else encode(after))
            for before, after in changed
            if (record := after or before) is not None
        ]
        return changed, rows

    # Looking

    def get(self, kind: type[AnyRecord], *key: str) -> AnyRecord | None:
        """Return the record of that name, as it will be."""
        records = self._changed[kind]
        if key in records:
            return cast("AnyRecord | None", records[key])
        return self._tables.get(kind, *key)

    def rows_of(self, kind: type[AnyRecord]) -> list[AnyRecord]:
        """Return all records of a kind, as they will be."""
        records = self._changed[kind]
        kept = [each for each in self._tables.rows(kind) if each.key not in records]
        made = [each for each in records.values() if each is not None]
        return [*kept, *cast("list[AnyRecord]", made)]

    def user(self, name: str) -> User:
        """Return the user of that name. Raises :class:`.NoSuchUser`."""
        user = self.get(User, name)
        if user is None:
            raise NoSuchUser(name)
        return user

    def vhost(self, name: str) -> Vhost:
        """Return that vhost. Raises :class:`.NoSuchVhost`, also if it is being removed."""
        vhost = self.get(Vhost, name)
        if vhost is None or vhost.leaving:
            raise NoSuchVhost(name)
        return vhost

    # Vhosts

    def put_vhost(
        self,
        name: str,
        *,
        description: str = "",
        tags: Sequence[str] = (),
        default_queue_type: str = "",
        metadata: Mapping[str, Any] | None = None,
        namespace: str | None = None,
    ) -> Vhost:
        """Create a vhost with its defaults, or replace all of it but its namespace and limits,
        which stay.

        Raises :class:`.NamespaceTaken`, :class:`.InvalidAccess` for a vhost of another store, and
        :class:`.LimitReached` when there may be no more.
        """
        _check_name("vhost", name)
        # A vhost is looked up by its name, so the namespace its name proposes must be here, too.
        for each in dict.fromkeys((proposed_namespace(name), namespace or "")):
            if each and (why := self._belonging.misplaced(each)):
                raise InvalidAccess(f"cannot create vhost '{name}': {why}")
        present = self.get(Vhost, name)
        if present is not None and present.leaving:
            raise InvalidAccess(f"cannot create vhost '{name}': it is being deleted")
        if present is None:
            there = self.rows_of(Vhost)
            if 0 <= self._vhosts_max <= len(there):
                raise LimitReached(
                    f"cannot create vhost '{name}': vhost limit of {self._vhosts_max} is reached"
                )
            wanted = namespace or proposed_namespace(name)
            for other in there:
                if other.namespace == wanted:
                    raise NamespaceTaken(name, wanted, other.name)
            _check_limits(limits := self._defaults.limits_of(name), VHOST_LIMITS)
            present = Vhost(name, wanted, limits=limits)
            for policy in self._defaults.policies_of(name):
                check_pattern(policy.pattern)
                self._put(policy)
        elif namespace not in (None, present.namespace):
            raise InvalidAccess(f"the namespace of vhost '{name}' is {present.namespace}")
        made = replace(
            present,
            description=description,
            tags=tuple(tags),
            default_queue_type=default_queue_type,
            metadata=metadata or {},
        )
        self._put(made)
        return made

    def set_vhost_limits(self, name: str, limits: Limits) -> None:
        """Replace all limits of the vhost."""
        _check_limits(limits, VHOST_LIMITS)
        self._put(replace(self.vhost(name), limits=dict(limits)))

    def begin_vhost_removal(self, name: str) -> None:
        """Let nobody in from now on, and begin the removal, which is final: everything about the
        vhost goes first. Others remove what is in it, before :meth:`end_vhost_removal`."""
        self._put(replace(self.vhost(name), leaving=True))
        for kind, part in _OF_VHOST:
            for each in self.rows_of(kind):
                if each.key[part] == name:
                    self._drop(each)

    def end_vhost_removal(self, name: str) -> None:
        """Remove the vhost, which is empty by now."""
        vhost = self.get(Vhost, name)
        assert vhost is not None, "it is there until its removal ends"
        assert vhost.leaving, "its removal was begun"
        self._drop(vhost)

    # Users

    def put_user(
        self, name: str, password: PasswordHash = NO_PASSWORD, tags: Sequence[str] = ()
    ) -> None:
        """Create a user, or replace the user's password and tags; limits stay."""
        _check_name("user", name)
        self._belonging.check_own(f"user '{name}'")
        present = self.get(User, name) or User(name)
        self._put(replace(present, password=password, tags=tuple(dict.fromkeys(tags))))

    def set_password(self, name: str, password: PasswordHash) -> None:
        """Replace a user's password; :data:`.NO_PASSWORD`: none."""
        self._belonging.check_own(f"user '{name}'")
        self._put(replace(self.user(name), password=password))

    def set_user_limits(self, name: str, limits: Limits) -> None:
        """Replace all limits of the user."""
        self._belonging.check_own(f"user '{name}'")
        _check_limits(limits, USER_LIMITS)
        self._put(replace(self.user(name), limits=dict(limits)))

    def delete_user(self, name: str) -> None:
        """Delete the user and all permissions of it."""
        self._belonging.check_own(f"user '{name}'")
        self._delete_user(name)

    def copy(self, copied: Collection[User | GlobalParameter]) -> None:
        """Replace all users and global parameters by those of another store."""
        keys = {(type(each), each.key) for each in copied}
        for user in self.rows_of(User):
            if (User, user.key) not in keys:
                self._delete_user(user.name)
        for parameter in self.rows_of(GlobalParameter):
            if (GlobalParameter, parameter.key) not in keys:
                self._drop(parameter)
        for each in copied:
            self._put(each)

    def _delete_user(self, name: str) -> None:
        self._drop(self.user(name))
        for kind in (Permission, TopicPermission):
            for each in self.rows_of(kind):
                if each.key[0] == name:
                    self._drop(each)

    # Permissions

    def set_permissions(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        """Set what the user may do in the vhost, which also gives access to it."""
        self.user(user)
        self.vhost(vhost)
        for pattern in (configure, write, read):
            check_pattern(pattern)
        self._put(Permission(user, vhost, configure, write, read))

    def clear_permissions(self, user: str, vhost: str) -> None:
        """End the user's access to the vhost. Without a row, nothing changes."""
        self.user(user)
        self.vhost(vhost)
        present = self.get(Permission, user, vhost)
        if present is not None:
            self._drop(present)

    def set_topic_permissions(
        self, user: str, vhost: str, exchange: str, write: str, read: str
    ) -> None:
        """Set which routing keys the user may use with an exchange, which need not exist."""
        self.user(user)
        self.vhost(vhost)
        for pattern in (write, read):
            check_pattern(pattern)
        self._put(TopicPermission(user, vhost, exchange, write, read))

    def clear_topic_permissions(self, user: str, vhost: str, exchange: str | None = None) -> None:
        """Allow all routing keys again, with one exchange or with all."""
        self.user(user)
        self.vhost(vhost)
        for each in self.rows_of(TopicPermission):
            if each.key[:2] == (user, vhost) and exchange in (None, each.exchange):
                self._drop(each)

    # Parameters and policies: plain values here; others check what they mean

    def set_parameter(self, vhost: str, component: str, name: str, value: Any) -> None:
        """Set a component's parameter in a vhost."""
        self.vhost(vhost)
        self._put(Parameter(vhost, component, name, value))

    def clear_parameter(self, vhost: str, component: str, name: str) -> None:
        """Remove the parameter. Raises :class:`.NotSet`."""
        self._clear(Parameter, vhost, component, name)

    def set_global_parameter(self, name: str, value: Any) -> None:
        """Set a parameter of the node."""
        self._belonging.check_own(f"global parameter '{name}'")
        self._put(GlobalParameter(name, value))

    def clear_global_parameter(self, name: str) -> None:
        """Remove the parameter. Raises :class:`.NotSet`."""
        self._belonging.check_own(f"global parameter '{name}'")
        self._clear(GlobalParameter, name)

    def set_policy(self, policy: Policy) -> None:
        """Set a policy, or an operator policy, replacing one of that name."""
        self.vhost(policy.vhost)
        check_pattern(policy.pattern)
        self._put(policy)

    def clear_policy(self, kind: type[Policy], vhost: str, name: str) -> None:
        """Remove the policy. Raises :class:`.NotSet`."""
        self._clear(kind, vhost, name)

    def mark_seeded(self) -> None:
        """Record that the store, and no longer the settings, decides from now on."""
        self._put(Seeded())

    # Inside

    def _clear(self, kind: type[Record], *key: str) -> None:
        present = self.get(kind, *key)
        if present is None:
            raise NotSet(f"there is no {kind.TABLE} {'/'.join(key)}")
        self._drop(present)

    def _put(self, record: Record) -> None:
        self._changed[type(record)][record.key] = record

    def _drop(self, record: Record) -> None:
        self._changed[type(record)][record.key] = None


def _check_name(what: str, name: str) -> None:
    if not name or not is_text(name):
        raise InvalidAccess(f"expected a name of a {what}, got {name!r}")


def _check_limits(limits: Limits, known: frozenset[str]) -> None:
    for name, value in limits.items():
        if name not in known:
            raise InvalidAccess(f"expected a limit of {', '.join(sorted(known))}, got {name!r}")
        if type(value) is not int:
            raise InvalidAccess(f"expected a number as {name}, got {value!r}")
