"""Lists compared with a plain model: sorted, filtered, divided into pages and columns, in turns."""

import json
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from arneb.http.management.lists.lists import (
    PATTERNS_PER_TURN,
    Listing,
    Page,
    Source,
    listed,
    listing_of,
    narrowed,
    range_of,
    ranges_of,
)
from arneb.http.management.lists.ordering import FIGURES_PER_TURN, SPARE, Orders
from arneb.http.management.requests.calls import Refused, Written
from arneb.http.management.requests.written import rendered
from arneb.http.server.long_answers import LONG_ITEMS, LOOKED_AT_MAX, ask_by

rows = st.lists(
    st.fixed_dictionaries(
        {"name": st.text("abcXY", max_size=4), "n": st.integers(0, 5)},
        optional={"deep": st.fixed_dictionaries({"x": st.integers(0, 3)})},
    ),
    max_size=30,
)


async def no_pause() -> None:
    """Gives others a turn at once."""


def answer(items: list[dict[str, Any]], **query: str) -> Any:
    source = Source(
        items, lambda row: row, lambda row: (row["name"],), {"n": lambda row: row["n"]}.get
    )
    return trio.run(listed, source, listing_of(query), no_pause)


@given(rows, st.sampled_from(["", "name", "n", "deep.x", "none"]), st.booleans())
def test_a_list_is_sorted_like_a_plain_sort(
    items: list[dict[str, Any]], sort: str, reverse: bool
) -> None:
    found = answer(items, sort=sort, sort_reverse="true" if reverse else "false")

    def key(row: dict[str, Any]) -> Any:
        value: Any = row.get("deep", {}).get("x", 0) if sort == "deep.x" else row.get(sort, 0)
        return (value, row["name"]) if sort else row["name"]

    assert list(map(key, found)) == sorted(map(key, items), reverse=reverse)
    assert sorted(map(repr, found)) == sorted(map(repr, items))


@given(rows, st.integers(1, 5), st.integers(1, 12), st.text("abcXY", max_size=2))
def test_the_pages_together_are_the_list(
    items: list[dict[str, Any]], size: int, number: int, name: str
) -> None:
    kept = [each for each in answer(items) if name.lower() in each["name"].lower()]
    asked = {"page": str(number), "page_size": str(size), "name": name}
    if (number - 1) * size > len(kept):
        with pytest.raises(Refused) as refused:
            answer(items, **asked)
        assert refused.value.error == "page_out_of_range"
        return
    found = answer(items, **asked)
    assert found["items"] == kept[(number - 1) * size : number * size]
    assert (found["total_count"], found["filtered_count"]) == (len(items), len(kept))
    assert found["item_count"] == len(found["items"])
    assert found["page_count"] == -(-len(kept) // size)


@pytest.mark.parametrize(
    "query",
    [
        {"page": "0"},
        {"page": "x"},
        {"page": "1", "page_size": "501"},
        {"page": "1", "page_size": "0"},
        {"sort_reverse": "perhaps"},
    ],
)
def test_wrong_parameters_are_refused(query: dict[str, str]) -> None:
    with pytest.raises(Refused) as refused:
        listing_of(query)
    assert refused.value.status == 400


def test_numbers_below_zero_are_refused_as_numbers() -> None:
    with pytest.raises(Refused, match="page number -1, page size -2") as refused:
        listing_of({"page": "-1", "page_size": "-2"})
    assert refused.value.error == "invalid_pagination_parameters"
    with pytest.raises(Refused, match="Pagination parameters are invalid"):
        listing_of({"page": "--1"})


@pytest.mark.parametrize(
    ("count", "asked_for", "asks"),
    [
        (LONG_ITEMS, {}, 0),
        (LONG_ITEMS + 1, {}, 1),
        (LOOKED_AT_MAX + 1, {"page": "1", "page_size": "10"}, 0),
        (LOOKED_AT_MAX + 1, {"page": "1", "page_size": str(LONG_ITEMS + 1)}, 1),
        (LOOKED_AT_MAX + 1, {"page": "1", "page_size": "10", "sort": "name"}, 1),
        (LOOKED_AT_MAX, {"page": "1", "page_size": "10", "sort": "name"}, 0),
        (LOOKED_AT_MAX + 1, {"page": "1", "page_size": "10", "name": "1"}, 1),
    ],
)
async def test_a_client_that_lists_very_many_waits_for_its_turn(
    count: int, asked_for: dict[str, str], asks: int
) -> None:
    asked = list[int]()

    async def ask() -> None:
        asked.append(count)

    ask_by(ask)
    rows = [{"name": str(number)} for number in range(count)]
    figures: dict[str, Any] = {"name": lambda row: row["name"]}
    source = Source(rows, lambda row: row, lambda row: (row["name"],), figures.get, in_order=True)
    await listed(source, listing_of(asked_for), no_pause)
    assert len(asked) == asks


@pytest.mark.parametrize(("count", "pauses"), [(0, 0), (1, 0), (100, 0), (101, 1), (300, 2)])
async def test_an_answer_pauses_only_between_its_pieces(count: int, pauses: int) -> None:
    paused = list[int]()

    async def pause() -> None:
        paused.append(count)

    ask_by(no_pause, pause)
    items = [Written(str(number)) for number in range(count)]
    pieces = [each async for each in rendered({"items": items, "n": 1})]
    assert json.loads(b"".join(pieces)) == {"items": list(range(count)), "n": 1}
    assert len(paused) == pauses


def test_an_invalid_pattern_is_refused() -> None:
    with pytest.raises(Refused, match="Pagination parameters are invalid"):
        answer([{"name": "a", "n": 1}], page="1", name="(", use_regex="true")


async def test_a_pattern_that_takes_too_long_is_refused_and_delays_nobody() -> None:
    pauses = 0

    async def pause() -> None:
        nonlocal pauses
        pauses += 1

    names = [*(f"n{number}" for number in range(1000)), "a" * 254 + "!"]
    source = Source(names, lambda name: {"name": name}, lambda name: (name,))
    query = {"page": "1", "name": "^(?!b)(a|a)*$", "use_regex": "true"}
    with pytest.raises(Refused, match="Pagination parameters are invalid"):
        await listed(source, listing_of(query), pause)
    assert pauses >= 1000 // PATTERNS_PER_TURN


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        ("name,none,nothing", {"name": "q", "none": None}),
        ("a.b,name", {"name": "q", "a": {"b": 1}}),
        ("a.b,a", {"a": {"b": 1, "c": {"d": 2, "e": 3}}}),
        ("a.b,a.c.e", {"a": {"b": 1, "c": {"e": 3}}}),
        ("a.x.y", {"a": {}}),
        ("name.x", {"name": "q"}),
        ("each.f", {"each": [{"f": 4}, {}, 5]}),
        (",,name,.", {"name": "q"}),
        ("nothing", {}),
        ("", {}),
    ],
)
def test_columns_select_fields_at_any_depth_also_of_each_in_a_list(
    columns: str, shown: dict[str, Any]
) -> None:
    document = {
        "name": "q", "none": None, "a": {"b": 1, "c": {"d": 2, "e": 3}},
        "each": [{"f": 4, "g": 0}, {"g": 0}, 5],
    }  # fmt: skip
    assert narrowed(document, listing_of({"columns": columns}).columns) == shown
    assert narrowed([document, 1], listing_of({"columns": columns}).columns) == [shown, 1]
    assert narrowed(document, listing_of({}).columns) is document


async def test_a_page_of_a_long_list_makes_only_the_documents_it_shows_and_pauses() -> None:
    made, pauses = [], 0

    async def pause() -> None:
        nonlocal pauses
        pauses += 1

    def document(number: int) -> dict[str, Any]:
        made.append(number)
        return {"name": str(number)}

    source = Source(range(50_000), document, lambda n: (f"{n:05}",), {"n": lambda n: -n}.get)
    found = await listed(source, listing_of({"page": "2", "sort": "n"}), pause)
    assert found["items"][0]["name"] == "49899"
    assert len(made) == 100
    assert pauses >= 50_000 // FIGURES_PER_TURN


def test_a_range_needs_both_of_its_parts() -> None:
    assert range_of({}, "lengths") is None
    wanted = range_of({"lengths_age": "60", "lengths_incr": "5"}, "lengths")
    assert wanted is not None
    assert (wanted.age_s, wanted.step_s) == (60, 5)
    for age, step in (("60", ""), ("", "5"), ("x", "5"), ("60", "1.5")):
        assert range_of({"lengths_age": age, "lengths_incr": step}, "lengths") is None
    for age, step in (("60", "0"), ("-60", "5"), ("6000", "1")):
        with pytest.raises(Refused, match=f"range parameters: age {age}, incr {step}$"):
            range_of({"lengths_age": age, "lengths_incr": step}, "lengths")


def test_a_range_that_is_not_shown_is_checked_too() -> None:
    query = {"msg_rates_age": "60", "msg_rates_incr": "5"}
    assert list(ranges_of(query, {"msg_rates": ["a", "b"], "lengths": ["c"]})) == ["a", "b"]
    assert not ranges_of(query, {"lengths": ["c"]})
    with pytest.raises(Refused):
        ranges_of({"node_stats_age": "60", "node_stats_incr": "0"}, {"lengths": ["c"]})


async def test_an_order_that_took_long_is_cached_and_figures_are_not() -> None:
    now, seen = 0.0, 0

    def clock() -> float:
        return now

    def length(item: int) -> int:
        nonlocal seen, now
        seen += 1
        now += 0.001
        return -item

    async def pause() -> None:
        pass

    orders = Orders(clock)
    shown = 5

    def source(stamp: int = 1) -> Source[int]:
        return Source(
            range(1000), lambda each: {"n": each, "shown": shown}, lambda each: (str(each),),
            {"length": length}.get, orders=orders, stamp=stamp,
        )  # fmt: skip

    listing = Listing(sort="length", page=Page(1, 3))
    first = await listed(source(), listing, pause)
    assert [each["n"] for each in first["items"]] == [999, 998, 997]
    assert seen == 1000
    shown = 6
    again = await listed(source(), listing, pause)
    assert [(each["n"], each["shown"]) for each in again["items"]] == [(999, 6), (998, 6), (997, 6)]
    few = 3 + SPARE
    assert seen == 1000 + few, "only rows that may come first were looked at"
    await listed(source(stamp=2), listing, pause)
    assert seen == 1000 + 2 * few, "by now other rows may come first"
    now += 100
    await listed(source(), listing, pause)
    assert seen == 2000 + 2 * few, (
        "the order was kept for long enough: all rows are looked at again"
    )
