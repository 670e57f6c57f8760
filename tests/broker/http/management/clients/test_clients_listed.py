"""Connections and channels in lists: who sees which, in which order, and how many are examined."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from tests.broker.http.management.kit import Caller, managed

from arneb.http.management.clients import channels, connections
from arneb.http.management.lists import ordering
from arneb.http.management.page import clients
from arneb_amqp.server.connection import Connection
from arneb_amqp.server.transport.remote import Remote
from arneb_amqp.session.connection.admission import Terms
from arneb_amqp.session.transitions import ChannelState, ConnectionState
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_amqp.wire.constants import ChannelId
from arneb_core.access.principals import Principal

CLIENTS = 60
PAGE = "page=1&page_size=5"


def a_channel(number: int, unacked: int) -> Any:
    deliverer = SimpleNamespace(
        consumers={}, answers=SimpleNamespace(unacked=range(unacked)), delivered=0,
        delivered_no_ack=0, got=0, got_no_ack=0, got_nothing=0, redelivered=0,
        acknowledged=lambda _: 0,
    )  # fmt: skip
    state = ChannelState.OPEN if unacked % 2 else ChannelState.CLOSING
    return SimpleNamespace(
        id=number, halves=(None, deliverer), state=state, limits=(unacked % 3, unacked % 5)
    )


def a_connection(number: int, user: str, vhost: str) -> Any:
    used = {ChannelId(2): a_channel(2, number * 7 % CLIENTS)}
    holder = SimpleNamespace(used=used, unused={ChannelId(1)})
    state = ConnectionState.OPEN if number % 4 else ConnectionState.CLOSING
    session = SimpleNamespace(
        state=state, vhost=object(), principal=Principal(user, None, frozenset()),  # type: ignore[arg-type]
        rights=SimpleNamespace(vhost=vhost), terms=Terms({}, "PLAIN", 9, 4096, 0),
        channels=Channels(holder),
        throttle=SimpleNamespace(blocked=number % 3 == 0),
    )  # fmt: skip
    link = SimpleNamespace(
        received_bytes=number * 11 % CLIENTS, sent_bytes=number * 13 % CLIENTS,
        reads=number * 17 % CLIENTS, writes=number * 19 % CLIENTS, waiting_bytes=number % 2,
    )  # fmt: skip
    return FakeConnection(session, link)


class FakeConnection(Connection):
    """As much of a connection as lists use."""

    def __init__(self, session: Any, link: Any) -> None:
        self.session, self.link, self.consumers = session, link, None  # type: ignore[assignment]


class Channels:
    """A connection's channels, of which one is used."""

    def __init__(self, holder: Any) -> None:
        self.used, self.unused = holder.used, holder.unused

    def __len__(self) -> int:
        return len(self.used) + len(self.unused)


def come(call: Caller, numbers: range, *, user: str = "management", vhost: str = "/") -> None:
    """So many clients connect."""
    for number in numbers:
        peer = Remote("127.0.0.1", port=1000 + number, local=("127.0.0.1", 5672))
        call.site.roster.enter(ConnectionId(number), a_connection(number, user, vhost), peer)


def value_at(document: Any, name: str) -> Any:
    return ordering.comparable(document[name])


@pytest.mark.parametrize("reverse", ["false", "true"])
@pytest.mark.parametrize(
    ("path", "module", "function"),
    [("channels", channels, "_document"), ("connections", connections, "connection_document")],
)
async def test_documents_are_made_only_of_what_is_shown(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    module: Any,
    function: str,
    reverse: str,
) -> None:
    """Whatever they are sorted by, the order is that of the documents' values."""
    made = 0
    make: Callable[..., Any] = getattr(module, function)

    def counted(*arguments: Any) -> Any:
        nonlocal made
        made += 1
        return make(*arguments)

    async with managed(tmp_path) as call:
        come(call, range(CLIENTS // 2))
        come(call, range(CLIENTS // 2, CLIENTS), user="other", vhost="v/m")
        everybody = await call.does("GET", path)
        monkeypatch.setattr(module, function, counted)
        for name in (*module.FIGURES, *module.CONSTANT):
            made = 0
            asked = f"{path}?{PAGE}&sort={name}&sort_reverse={reverse}"
            page = (await call.does("GET", asked))["items"]
            assert made == 5, name
            values = sorted((value_at(each, name) for each in everybody), reverse=reverse == "true")
            assert [value_at(each, name) for each in page] == values[:5], name


@pytest.mark.parametrize("reverse", ["false", "true"])
async def test_the_list_of_both_protocols_is_sorted_by_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reverse: str
) -> None:
    made = 0
    make = clients._of_amqp

    def counted(*arguments: Any) -> Any:
        nonlocal made
        made += 1
        return make(*arguments)

    async with managed(tmp_path) as call:
        come(call, range(CLIENTS // 2))
        come(call, range(CLIENTS // 2, CLIENTS), user="other", vhost="v/m")
        everybody = (await call.does("GET", "page/connections?page=1&page_size=500"))["items"]
        assert len(everybody) == CLIENTS
        monkeypatch.setattr(clients, "_of_amqp", counted)
        for name in sorted(clients.SORTABLE):
            made = 0
            asked = f"page/connections?{PAGE}&sort={name}&sort_reverse={reverse}"
            page = (await call.does("GET", asked))["items"]
            assert made == len(page) == 5, name
            field = {"opened": "opened_ms", "flow": "noisy"}.get(name, name)
            values = sorted((value_at(e, field) for e in everybody), reverse=reverse == "true")
            assert [value_at(each, field) for each in page] == values[:5], name


async def test_the_connection_with_the_most_traffic_comes_first_and_is_the_noisy_one(
    tmp_path: Path,
) -> None:
    async with managed(tmp_path) as call:
        come(call, range(9))
        growth = call.site.rates.growth
        asked = f"page/connections?{PAGE}&sort=flow&sort_reverse=true"
        await call.does("GET", asked)
        await growth.sample()
        with trio.move_on_after(1):
            await trio.sleep_forever()
        loud: Any = call.site.roster.get(ConnectionId(4))
        loud.link.received_bytes += 300_000
        loud.link.sent_bytes += 100_000
        first, second, *_ = (await call.does("GET", asked))["items"]
        assert first["name"].startswith("127.0.0.1:1004 ")
        assert (first["received"], first["sent"]) == (300_000, 100_000)
        assert (first["noisy"], second["noisy"]) == (True, False)


async def test_a_user_who_may_not_monitor_sees_only_its_own(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        come(call, range(4))
        come(call, range(4, 6), user="other")
        come(call, range(6, 9), vhost="v/m")
        for path, each in (("connections", 1), ("channels", 2)):
            shown = [
                await call.does("GET", path, user="monitoring"),
                await call.does("GET", path, user="management"),
                await call.does("GET", f"vhosts/%2F/{path}"),
                await call.does("GET", path, x_vhost="v/m"),
            ]
            assert [len(found) // each for found in shown] == [9, 7, 6, 3], path
        totals = (await call.does("GET", "overview"))["object_totals"]
        assert (totals["connections"], totals["channels"]) == (9, 18)


async def test_a_cached_order_gets_new_connections_and_loses_closed_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordering, "fresh_for_s", lambda _: 99.0)
    async with managed(tmp_path) as call:
        for path, sort in (
            ("channels", "messages_unacknowledged"),
            ("connections", "recv_oct"),
            ("page/connections", "parts"),
        ):
            asked = f"{path}?{PAGE}&sort={sort}&sort_reverse=true"

            async def shown(asked: str = asked) -> list[str]:
                return [each["name"] for each in (await call.does("GET", asked))["items"]]

            come(call, range(3))
            before = await shown()
            assert any(":1002 " in each for each in before)
            come(call, range(3, 4))
            assert any(":1003 " in each for each in await shown())
            call.site.roster.leave(ConnectionId(2))
            assert not any(":1002 " in each for each in await shown())
            for number in (0, 1, 3):
                call.site.roster.leave(ConnectionId(number))
            assert await shown() == []


async def test_a_connection_that_closes_while_the_list_is_made_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with managed(tmp_path) as call:
        come(call, range(3))
        roster = call.site.roster
        look = roster.connection
        monkeypatch.setattr(
            roster, "connection", lambda id_: None if id_ == 1 else look(id_)
        )  # fmt: skip
        for path in ("channels", "connections", "page/connections"):
            page = await call.does("GET", f"{path}?{PAGE}")
            assert not any(":1001 " in each["name"] for each in page["items"])
            assert page["item_count"] == len(page["items"]) > 0
