"""The authority asks the backends that know a user, hides why it refuses, and slows guessing."""

import logging
from collections.abc import Callable

import pytest
import trio

from arneb_core.access.authority import Authority
from arneb_core.access.guesses import FORGIVEN_S, FREE_REFUSALS, LOGINS_AT_ONCE_MAX, REFUSAL_S_MAX
from arneb_core.access.internal import SHORT_CHARACTERS, InternalBackend, InternalVerdicts
from arneb_core.access.passwords import NO_PASSWORD, PasswordHash, hash_password
from arneb_core.access.principals import Credentials, Kind, LoginRefused, Principal, Question
from arneb_core.access.records import Permission, TopicPermission, User
from arneb_core.access.rights import Right
from arneb_core.access.tables import Tables

SECRET = hash_password("right", b"salt")


def users(**hashes: PasswordHash) -> Tables:
    return Tables([User(name, stored, ("tag",)) for name, stored in hashes.items()])


def authority(
    tables: Tables, is_loopback_only: Callable[[str], bool] = lambda _: False
) -> Authority:
    return Authority([InternalBackend(tables)], is_loopback_only)


async def attempt(
    to: Authority, name: str, password: str | None, **where: object
) -> Principal | None:
    try:
        return await to.log_in(Credentials(name, password, **where))  # type: ignore[arg-type]
    except LoginRefused:
        return None


async def test_the_right_password_lets_in_with_the_tags() -> None:
    found = await attempt(authority(users(u=SECRET)), "u", "right")
    assert found is not None
    assert (found.name, found.tags) == ("u", {"tag"})


@pytest.mark.parametrize(
    ("name", "password"), [("u", "wrong"), ("v", "right"), ("u", ""), ("none", ""), ("none", "x")]
)
async def test_nobody_else_is_let_in(name: str, password: str) -> None:
    assert await attempt(authority(users(u=SECRET, none=NO_PASSWORD)), name, password) is None


async def test_a_certificate_lets_in_an_existing_user_even_without_a_password() -> None:
    here = authority(users(none=NO_PASSWORD))
    assert await attempt(here, "none", None) is not None
    assert await attempt(here, "nobody", None) is None


async def test_some_may_come_from_this_machine_only() -> None:
    here = authority(users(u=SECRET), lambda name: name == "u")
    assert await attempt(here, "u", "right", loopback=False) is None
    assert await attempt(here, "u", "right", loopback=True) is not None


async def test_the_log_says_why_and_not_with_what(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await attempt(authority(users(u=SECRET)), "u", "hunter2", address="10.0.0.1", mechanism="X")
    assert [each.getMessage() for each in caplog.records] == [
        "X login refused: user 'u' - invalid credentials (from 10.0.0.1)"
    ]
    assert "hunter2" not in repr(Credentials("u", "hunter2"))


async def test_the_first_backend_that_knows_a_user_counts() -> None:
    one, other = users(u=SECRET), users(u=NO_PASSWORD, w=SECRET)
    both = Authority([InternalBackend(other), InternalBackend(one)], lambda _: False)
    assert await attempt(both, "u", "right") is not None
    assert await attempt(both, "w", "right") is not None
    assert await attempt(both, "x", "right") is None


async def test_a_user_that_goes_while_its_password_is_looked_at_is_not_let_in() -> None:
    tables = users(u=SECRET)

    class Going(Tables):
        looked = 0

        def get(self, kind, *key):  # type: ignore[no-untyped-def]
            self.looked += 1
            return tables.get(kind, *key) if self.looked == 1 else None

    assert await attempt(authority(Going()), "u", "right") is None


@pytest.mark.parametrize(
    ("length", "is_at_once"), [(1, True), (SHORT_CHARACTERS, True), (SHORT_CHARACTERS + 1, False)]
)
async def test_only_long_passwords_are_looked_at_in_threads(length: int, is_at_once: bool) -> None:
    password = "p" * length
    here = authority(users(u=hash_password(password, b"salt")))
    found = list[Principal | None]()
    with trio.CancelScope() as scope:
        scope.cancel()  # a checkpoint would end it
        found.append(await attempt(here, "u", password))
    assert [each is not None for each in found] == [True] * is_at_once
    assert await attempt(here, "u", password) is not None
    assert await attempt(here, "u", password + "x") is None


async def test_refusals_of_an_address_come_later_and_later() -> None:
    here = authority(users(u=SECRET))
    waited = []
    for _ in range(12):
        began = trio.current_time()
        assert await attempt(here, "u", "wrong", address="a") is None
        waited.append(trio.current_time() - began)
    assert waited[:FREE_REFUSALS] == [0] * FREE_REFUSALS
    assert waited == sorted(waited)
    assert waited[-1] == REFUSAL_S_MAX
    began = trio.current_time()
    assert await attempt(here, "u", "wrong", address="b") is None
    assert await attempt(here, "u", "right", address="a") is not None
    assert trio.current_time() == began, "neither others nor correct logins are delayed"
    assert await attempt(here, "u", "wrong", address="a") is None
    assert trio.current_time() == began, "a correct login resets the delay"


async def test_an_address_is_forgiven_after_a_while() -> None:
    here = authority(users(u=SECRET))
    for _ in range(10):
        await attempt(here, "u", "wrong", address="a")
    with trio.move_on_after(FORGIVEN_S + 1):
        await trio.sleep_forever()
    began = trio.current_time()
    await attempt(here, "u", "wrong", address="a")
    assert trio.current_time() == began


async def test_guessing_at_once_is_no_faster_than_one_after_the_other() -> None:
    here = authority(users(u=SECRET))
    for _ in range(10):
        await attempt(here, "u", "wrong", address="a")
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(4 * LOGINS_AT_ONCE_MAX):
            nursery.start_soon(attempt, here, "u", "wrong")
        for _ in range(4 * LOGINS_AT_ONCE_MAX):
            nursery.start_soon(lambda: attempt(here, "u", "wrong", address="a"))
    assert trio.current_time() - began >= 3 * REFUSAL_S_MAX


async def test_verdicts_are_those_of_the_tables_as_they_are_now() -> None:
    tables = users(u=SECRET)
    verdicts = InternalVerdicts(tables, "u")
    queue, topic = (
        Question(Right.READ, Kind.QUEUE, "q"),
        Question(Right.WRITE, Kind.TOPIC, "x", "k"),
    )
    assert not await verdicts.admits("/", "a")
    assert not verdicts.may("/", queue)
    assert verdicts.may("/", topic)
    permission = Permission("u", "/", "", "", "q")
    tables.apply([(None, permission), (None, TopicPermission("u", "/", "x", "z", ""))])  # type: ignore[list-item]
    assert await verdicts.admits("/", "a")
    assert verdicts.may("/", queue)
    assert not verdicts.may("v", queue)
    assert not verdicts.may("/", topic)
    assert verdicts.limits_keys("/", "x")
    assert not verdicts.limits_keys("/", "y")
    await verdicts.ask("/", queue)
    await verdicts.renew("u", "anything")
