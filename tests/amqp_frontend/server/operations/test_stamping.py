"""Stamping: the lifetime of everything in a transaction begins at the commit, and no other task is
held up by it."""

import trio
from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.server.operations.stamping import PIECE_BYTES, PIECE_ENTRIES, Run, pieces, stamp
from arneb_amqp.session.effects import Commit
from arneb_core.api.entries.entry import EntryHeader, Origin, read_header

THEN_MS, LATER_MS = 1_700_000_000_000, 1_700_000_000_300


def entry(body: bytes = b"x", *, expires_in_ms: int = 0, due_in_ms: int = 0) -> bytes:
    header = EntryHeader(
        Origin.AMQP,
        publish_time_ms=THEN_MS,
        expires_at_ms=THEN_MS + expires_in_ms if expires_in_ms else 0,
        deliver_at_ms=THEN_MS + due_in_ms if due_in_ms else 0,
    )
    return header.pack() + body


async def turns_of_others(request: Commit) -> int:
    """How often another task had its turn while ``request`` was stamped."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        await stamp(request)
        nursery.cancel_scope.cancel()
    return turns


async def test_every_time_in_a_header_moves_to_the_commit() -> None:
    request = Commit(
        [(("a",), [entry(), entry(expires_in_ms=500)]), (("b", "c"), [entry()])],
        [(("x",), [entry(due_in_ms=70)])],
        published_ms=LATER_MS,
    )
    assert await stamp(request) == [("a",)]
    runs = [entries for _, entries in (*request.appends, *request.delayed)]
    headers = [read_header(each) for entries in runs for each in entries]
    assert {header.publish_time_ms for header in headers} == {LATER_MS}
    assert [header.expires_at_ms for header in headers] == [0, LATER_MS + 500, 0, 0]
    assert [header.deliver_at_ms for header in headers] == [0, 0, 0, LATER_MS + 70]


async def test_a_small_transaction_is_stamped_in_one_turn() -> None:
    request = Commit([(("a",), [entry()] * (PIECE_ENTRIES - 1))], published_ms=LATER_MS)
    assert await turns_of_others(request) == 0


async def test_others_get_turns_between_pieces_of_many_messages() -> None:
    runs = [((f"q{number}",), [entry()] * 100) for number in range(100)]
    assert (
        await turns_of_others(Commit(runs, published_ms=LATER_MS)) >= 50 * 100 // PIECE_ENTRIES - 1
    )


async def test_others_get_turns_between_pieces_of_large_messages() -> None:
    entries = [entry(bytes(PIECE_BYTES))] * 10
    assert await turns_of_others(Commit([(("a",), entries)], published_ms=LATER_MS)) >= 5


runs = st.lists(
    st.tuples(
        st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True).map(tuple),
        st.lists(st.binary(max_size=2), min_size=1, max_size=9),
    ),
    max_size=9,
)


@given(runs, st.integers(1, 12))
def test_the_pieces_are_complete_in_order_and_short(runs: list[Run], most: int) -> None:
    found: list[tuple[tuple[str, ...], bytes]] = []
    work = 0
    for piece in pieces(runs, most):
        if piece is None:
            work = 0
            continue
        names, entries = piece
        work += len(names) * len(entries)
        found += [(names, entry) for entry in entries]
        # One piece more than there was room for.
        assert work < most + max(most, len(names))
    assert found == [(names, entry) for names, entries in runs for entry in entries]


def test_runs_of_one_message_are_cut_like_one_run_of_many() -> None:
    turns = list(pieces([(("a",), [b""]), (("b",), [b""])] * PIECE_ENTRIES)).count(None)
    assert turns == 1
