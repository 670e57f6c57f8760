"""Importing: definitions from a file, from here or from a RabbitMQ of any 3.x, made what is there.

The rule: all of it is read and checked before anything is done. Users, vhosts, permissions,
parameters and policies are one commit. Then come exchanges, queues and bindings, of which those
that are there stay as they are; if some cannot be made, the others are, and the answer says which.
What is not understood is named in the log.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from arneb.http.management.arguments import arguments_of
from arneb.http.management.calls import Body, Refused, bad_request
from arneb.http.management.parameters import KEPT, OPERATOR_POLICY, VHOST_LIMITS, put_parameter
from arneb.http.management.policies import policy_in
from arneb.http.management.users import hash_in, tags_in
from arneb.http.management.vhosts import queue_type_in
from arneb_amqp.errors import AmqpError
from arneb_amqp.routing.exchange import Binding, DestinationKind, Exchange
from arneb_amqp.server.acting import NO_CONNECTION
from arneb_amqp.shovels.settings import COMPONENT as SHOVEL
from arneb_amqp.topology.footprint import of_binding, of_exchange, of_queue
from arneb_amqp.topology.queues.declaration import Declaration
from arneb_amqp.topology.topology import Topology
from arneb_core.access.catalogue import Catalogue, hashed
from arneb_core.access.edits import Edit
from arneb_core.access.errors import AccessError
from arneb_core.access.passwords import NO_PASSWORD, PasswordHash
from arneb_core.access.records import Policy
from arneb_core.api.errors import CoreError
from arneb_core.api.json_text import InvalidJson, parse_json
from arneb_core.api.waiting import TOGETHER_MAX

LOGGER: Final = logging.getLogger(__name__)

BRACKETS_MAX: Final = 4_000_000
"""Of a file of definitions: a million queues and bindings with arguments."""

PUTS_PER_TURN: Final = 200
"""Rows of the catalogue that are put into one change in a millisecond or two."""

SHOWN_MAX: Final = 20
"""Failures that an answer names."""

LISTS: Final = (
    "users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters",
    "policies", "queues", "exchanges", "bindings",
)  # fmt: skip

_DESCRIPTIVE: Final = frozenset(
    {
        "rabbit_version", "rabbitmq_version", "product_name", "product_version",
        "rabbitmq_definition_format", "original_cluster_name", "original_vhost_name",
        "explanation", "description",
    }
)  # fmt: skip
_OF_VHOST: Final = frozenset({"parameters", "policies", "queues", "exchanges", "bindings"})


UserRow = tuple[str, str | PasswordHash, Sequence[str], Mapping[str, int]]
"""Name, password (a clear one is still to be hashed), tags and limits."""


@dataclass(frozen=True, slots=True)
class Definitions:
    """A file that was read and checked."""

    access: Sequence[Callable[[Edit], object]]
    """What is done to the catalogue, in order."""
    users: Sequence[UserRow]
    """With clear passwords, which old files may have."""
    vhosts: Sequence[Callable[[Edit], object]]
    exchanges: Sequence[tuple[str, Exchange]]
    queues: Sequence[tuple[str, Declaration]]
    bindings: Sequence[tuple[str, Binding]]
    ignored: Sequence[str]


def definitions_in(data: bytes, vhost: str | None) -> Definitions:
    """What a file says, of one vhost if that is named. Raises 400."""
    if not data.strip():
        data = b"{}"  # as everywhere
    try:
        document = parse_json(data, brackets_max=BRACKETS_MAX)
    except InvalidJson:
        raise bad_request("failed_to_parse_json") from None
    if not isinstance(document, dict):
        raise bad_request("failed_to_parse_json")
    lists: dict[str, list[Body]] = {}
    for name in LISTS:
        rows = document.get(name)
        rows = [] if rows is None else rows
        if not isinstance(rows, list) or not all(isinstance(each, dict) for each in rows):
            raise bad_request(f"expected a list of objects as {name}")
        if vhost is not None and name in _OF_VHOST:
            rows = [{**each, "vhost": vhost} for each in rows]
        lists[name] = [Body(each) for each in rows]
    ignored = [name for name in document if name not in LISTS and name not in _DESCRIPTIVE]
    if vhost is not None:
        ignored += [each for each in LISTS if each not in _OF_VHOST and lists[each]]
        lists |= {each: [] for each in LISTS if each not in _OF_VHOST}
    for name in _OF_VHOST:
        for each in lists[name]:
            if "vhost" not in each.given:
                raise bad_request(["no_such_vhost", "undefined"])
    return Definitions(
        [*_rights(lists), *_settings(lists, ignored)],
        [_user(each) for each in lists["users"]],
        [_vhost(each) for each in lists["vhosts"]],
        [_exchange(each) for each in lists["exchanges"]],
        [_queue(each) for each in lists["queues"]],
        [_binding(each) for each in lists["bindings"]],
        ignored,
    )


def _user(body: Body) -> UserRow:
    password: str | PasswordHash = hash_in(body.given) or NO_PASSWORD
    if "password_hash" not in body.given and body.given.get("password"):
        password = body.text("password")
    limits = body.object("limits")
    return body.text("name"), password, tags_in(body), _limits(limits)


def _limits(limits: Mapping[str, Any]) -> Mapping[str, int]:
    if not all(type(each) is int for each in limits.values()):
        raise bad_request("expected numbers as limits")
    return limits


def _vhost(body: Body) -> Callable[[Edit], object]:
    metadata = dict(body.object("metadata"))
    kind = body.given.get("default_queue_type", metadata.pop("default_queue_type", None))
    tags = body.texts("tags") if "tags" in body.given else list(metadata.pop("tags", []) or [])
    metadata.pop("tags", None)
    description = body.text("description", str(metadata.pop("description", "") or ""))
    metadata.pop("description", None)
    name, kind = body.text("name"), queue_type_in(kind)
    limits = body.given.get("limits", [])

    def put(edit: Edit) -> None:
        edit.put_vhost(
            name, description=description, tags=tags, default_queue_type=kind, metadata=metadata
        )
        if isinstance(limits, dict) and limits:
            edit.set_vhost_limits(name, _limits(limits))

    return put


def _rights(lists: Mapping[str, Sequence[Body]]) -> Iterator[Callable[[Edit], object]]:
    for each in lists["permissions"]:
        names = ("user", "vhost", "configure", "write", "read")
        yield partial(_set_permissions, texts=[each.text(name) for name in names])
    for each in lists["topic_permissions"]:
        names = ("user", "vhost", "exchange", "write", "read")
        yield partial(_set_topic_permissions, texts=[each.text(name) for name in names])


def _settings(
    lists: Mapping[str, Sequence[Body]], ignored: list[str]
) -> Iterator[Callable[[Edit], object]]:
    for each in lists["global_parameters"]:
        name, value = each.text("name"), each.given.get("value")
        yield partial(_set_global, name=name, value=value)
    for each in lists["policies"]:
        policy = policy_in(Policy, each.text("vhost"), each.text("name"), each)
        yield partial(_set_policy, policy=policy)
    for each in lists["parameters"]:
        vhost, component, name = each.text("vhost"), each.text("component"), each.text("name")
        if component in (*KEPT, SHOVEL, VHOST_LIMITS, OPERATOR_POLICY):
            yield partial(
                put_parameter, vhost=vhost, component=component, name=name,
                value=each.given.get("value"),
            )  # fmt: skip
        else:
            ignored.append(f"parameter {name} of component {component} in vhost {vhost}")


def _set_permissions(edit: Edit, texts: Sequence[str]) -> None:
    edit.set_permissions(*texts)


def _set_topic_permissions(edit: Edit, texts: Sequence[str]) -> None:
    edit.set_topic_permissions(*texts)


def _set_global(edit: Edit, name: str, value: Any) -> None:
    edit.set_global_parameter(name, value)


def _set_policy(edit: Edit, policy: Policy) -> None:
    edit.set_policy(policy)


def _exchange(body: Body) -> tuple[str, Exchange]:
    return body.text("vhost"), Exchange(
        body.text("name"), body.text("type", "direct"), body.flag("durable", default=True),
        body.flag("auto_delete"), body.flag("internal"), arguments_of(body.object("arguments")),
    )  # fmt: skip


def _queue(body: Body) -> tuple[str, Declaration]:
    return body.text("vhost"), Declaration(
        NO_CONNECTION, body.text("name"), body.flag("durable", default=True),
        auto_delete=body.flag("auto_delete"), arguments=arguments_of(body.object("arguments")),
        name_given=True,
    )  # fmt: skip


def _binding(body: Body) -> tuple[str, Binding]:
    try:
        kind = DestinationKind(body.text("destination_type"))
    except ValueError:
        raise bad_request("expected queue or exchange as destination_type") from None
    return body.text("vhost"), Binding(
        body.text("source"), body.text("destination"), body.text("routing_key", ""),
        arguments_of(body.object("arguments")), kind,
    )  # fmt: skip


async def take_in(catalogue: Catalogue, topology: Topology, definitions: Definitions) -> None:
    """Have all of it. Raises 400, before anything is done or saying what was."""
    puts: list[Callable[[Edit], object]] = []
    for name, given, tags, limits in definitions.users:
        password = await hashed(given) if isinstance(given, str) else given
        puts.append(partial(_put_user, name=name, password=password, tags=tags, limits=limits))
    puts += [*definitions.vhosts, *definitions.access]
    try:
        async with catalogue.changing() as edit:
            for number, put in enumerate(puts, 1):
                put(edit)
                if number % PUTS_PER_TURN == 0:
                    await trio.lowlevel.checkpoint()
            for rows in (definitions.exchanges, definitions.queues, definitions.bindings):
                for vhost in dict.fromkeys(name for name, _ in rows):
                    edit.vhost(vhost)
    except AccessError as error:
        raise bad_request(f"nothing was imported: {error}") from error
    failures: list[str] = []
    making = _Making(topology, failures)
    await making.all([partial(making.exchange, *each) for each in definitions.exchanges])
    await making.all([partial(making.queue, *each) for each in definitions.queues])
    await making.all([partial(making.binding, *each) for each in definitions.bindings])
    for each in definitions.ignored:
        LOGGER.warning("importing definitions: %s means nothing here and was left out", each)
    if failures:
        shown = "; ".join(failures[:SHOWN_MAX])
        more = f"; and {len(failures) - SHOWN_MAX} more" if len(failures) > SHOWN_MAX else ""
        raise bad_request(f"everything was imported but {len(failures)}: {shown}{more}")


def _put_user(
    edit: Edit, name: str, password: PasswordHash, tags: Sequence[str], limits: Mapping[str, int]
) -> None:
    edit.put_user(name, password, tags)
    if limits:
        edit.set_user_limits(name, limits)


class _Making:
    """Makes what is not there, some at a time, so that they share commits."""

    def __init__(self, topology: Topology, failures: list[str]) -> None:
        self._topology = topology
        self._failures = failures

    def __repr__(self) -> str:
        return f"<_Making, {len(self._failures)} failures>"

    async def all(self, makings: Sequence[Callable[[], Awaitable[None]]]) -> None:
        """All of these, which do not depend on one another."""
        for start in range(0, len(makings), TOGETHER_MAX):
            async with trio.open_nursery() as nursery:
                for each in makings[start : start + TOGETHER_MAX]:
                    nursery.start_soon(self._try, each)

    async def _try(self, make: Callable[[], Awaitable[None]]) -> None:
        try:
            await make()
        except AmqpError as error:
            self._failures.append(error.explanation)
        except CoreError as error:
            self._failures.append(str(error))

    async def exchange(self, name: str, exchange: Exchange) -> None:
        """Raises as an AMQP client's declaration."""
        vhost = self._topology.vhost(name)
        assert vhost is not None, "it was there when the import began"
        async with self._topology.changing(lambda: of_exchange(name, exchange.name)):
            if exchange.name not in vhost.router.exchanges:
                await vhost.exchanges.declare(exchange)

    async def queue(self, name: str, wanted: Declaration) -> None:
        """Raises as an AMQP client's declaration."""
        vhost = self._topology.vhost(name)
        assert vhost is not None, "it was there when the import began"
        async with self._topology.changing(lambda: of_queue(name, wanted.name)):
            if not vhost.has_queue(wanted.name):
                await vhost.queues.declare(wanted)

    async def binding(self, name: str, binding: Binding) -> None:
        """Raises as an AMQP client's binding."""
        vhost = self._topology.vhost(name)
        assert vhost is not None, "it was there when the import began"
        touched = partial(
            of_binding, name, vhost.router, binding.source, binding.kind, binding.destination,
            goes=False,
        )  # fmt: skip
        async with self._topology.changing(touched):
            if binding not in vhost.router.bindings_from(binding.source):
                await vhost.exchanges.bind(binding, NO_CONNECTION)


async def load_definitions(catalogue: Catalogue, topology: Topology, path: Path) -> int:
    """Take in a file, or all files ``*.json`` of a directory in the order of their names; how many
    those were. Raises :class:`ValueError` that names the file."""
    where = trio.Path(path)
    try:
        files = [where]
        if await where.is_dir():
            files = sorted(await where.glob("*.json"))
        for file in files:
            where = file
            data = await file.read_bytes()
            read = await trio.to_thread.run_sync(definitions_in, data, None)
            await take_in(catalogue, topology, read)
    except Refused as refused:
        raise ValueError(f"{where}: {refused.reason}") from refused
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from error
    return len(files)
