"""The headers of dead letters, compared with a model, and when a dead-letter cycle ends."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from tests.counting import calls_of

from arneb_amqp.routing.death import REASONS, DeadLetter, dead_letter_of
from arneb_amqp.wire.properties import Properties, decode_properties, encode_properties
from arneb_amqp.wire.route import Route
from arneb_amqp.wire.tables import Field, array, long, longstr, table
from arneb_core.api.subscriptions.limits import Departure

QUEUES = st.sampled_from(["a", "b", "c"])
REASON = st.sampled_from(Departure)


def die(
    properties: Properties,
    queue: str = "q",
    reason: Departure = Departure.REJECTED,
    *,
    key: str | None = None,
    route: Route = Route("x", "k"),  # noqa: B008
) -> DeadLetter:
    return dead_letter_of(properties, route, queue=queue, reason=reason, now_s=7, routing_key=key)


def texts(fields: Mapping[str, Field], *names: str) -> list[str]:
    return [fields[name].text for name in names]


def deaths(properties: Properties) -> list[tuple[str, str, int]]:
    """Queue, reason and count of each death, as a client reads them."""
    headers = decode_properties(encode_properties(properties)).headers or {}
    found = []
    for each in headers["x-death"].value:  # type: ignore[union-attr]
        fields = each.value  # type: ignore[union-attr]
        found.append((*texts(fields, "queue", "reason"), fields["count"].value))
    return found


def test_a_first_death_sets_every_header() -> None:
    sent = Properties(
        headers={"CC": array([longstr("k2")]), "mine": longstr("1")}, expiration="60", priority=3
    )
    letter = die(sent, reason=Departure.EXPIRED)
    headers = letter.properties.headers or {}
    (death,) = letter.deaths
    assert list(death) == [
        "count", "reason", "queue", "time", "exchange", "routing-keys", "original-expiration",
    ]  # fmt: skip
    assert texts(death, "exchange", "queue", "reason", "original-expiration") == [
        "x", "q", "expired", "60",
    ]  # fmt: skip
    assert death["routing-keys"] == array([longstr("k"), longstr("k2")])
    assert death["time"].value == 7
    for when in ("first", "last"):
        names = [f"x-{when}-death-{name}" for name in ("exchange", "queue", "reason")]
        assert texts(headers, *names) == ["x", "q", "expired"]
    assert (letter.routing_key, letter.copies) == ("k", ("k2",))
    assert (letter.properties.expiration, letter.properties.priority) == (None, 3)
    assert texts(headers, "mine") == ["1"]
    assert "CC" in headers


def test_a_routing_key_of_the_queue_replaces_all_others() -> None:
    letter = die(Properties(headers={"CC": array([longstr("k2")])}), key="other")
    assert (letter.routing_key, letter.copies) == ("other", ())
    assert "CC" not in (letter.properties.headers or {})
    assert letter.deaths[0]["routing-keys"] == array([longstr("k"), longstr("k2")])


def sent(*history: Mapping[str, Field], **headers: Field) -> Properties:
    """What a client publishes that has a history, real or invented."""
    return Properties(headers={"x-death": array([table(each) for each in history]), **headers})


def death(queue: str, reason: str = "rejected", **more: Field) -> dict[str, Field]:
    return {"queue": longstr(queue), "reason": longstr(reason), **more}


def test_a_dead_letter_that_is_published_again_keeps_counting() -> None:
    """It has the headers that it arrived with; the first death stays the same."""
    first = die(Properties()).properties
    again = die(Properties(headers=first.headers), "other", Departure.EXPIRED).properties
    third = die(Properties(headers=again.headers)).properties
    assert deaths(third) == [("q", "rejected", 2), ("other", "expired", 1)]
    headers = third.headers or {}
    assert texts(headers, "x-first-death-queue", "x-last-death-queue") == ["q", "q"]


def test_a_history_without_counts_is_counted() -> None:
    """Brokers before RabbitMQ 3.5 wrote one table per death."""
    old = [death("a", "expired")] * 3
    letter = die(sent(*old, death("q", count=long(4)), death("q", count=long(9))))
    assert deaths(letter.properties) == [("q", "rejected", 5), ("a", "expired", 3)]
    assert letter.closes_circle("a") is False  # a rejection has happened since


def test_a_history_of_one_table_without_a_count_is_left_as_it_is() -> None:
    old = {"queue": longstr("q"), "reason": longstr("rejected")}
    assert deaths(die(sent(old)).properties) == [("q", "rejected", 1)]
    _, other = die(sent(old), "other").deaths
    assert other == old


def test_a_malformed_history_is_ignored() -> None:
    """Entries that are not tables, that lack a queue or reason, or whose count is not a number."""
    odd = (table({"queue": longstr("q")}), table({"reason": longstr("rejected")}), longstr("q"))
    named = {"queue": table({}), "reason": longstr("rejected")}
    for history in (array([*odd, table(named)]), longstr("[I, am, not, array]")):
        letter = die(Properties(headers={"x-death": history}))
        assert deaths(letter.properties) == [("q", "rejected", 1)]
    for count, found in ((longstr("9"), 1), (long((1 << 63) - 1), (1 << 63) - 1), (long(-5), -4)):
        letter = die(sent(death("q", count=count)))
        assert deaths(letter.properties) == [("q", "rejected", found)]


def test_the_first_death_is_noted_only_once() -> None:
    forged = {"x-first-death-queue": longstr("nowhere")}
    headers = die(sent(death("a"), **forged)).properties.headers or {}
    assert texts(headers, "x-first-death-queue", "x-last-death-queue") == ["nowhere", "q"]
    headers = die(Properties(headers=forged)).properties.headers or {}
    assert texts(headers, "x-first-death-queue") == ["q"]


def test_all_other_deaths_are_listed_in_the_order_of_names() -> None:
    """As in RabbitMQ, which leaves the others as they were."""
    first = die(Properties())
    again = die(Properties(headers=first.properties.headers), "other")
    latest, before = again.deaths
    assert list(latest) == sorted(latest)
    assert list(before) == list(first.deaths[0]) != sorted(before)
    (counted,) = die(sent({"reason": longstr("rejected"), "queue": longstr("q")})).deaths
    assert list(counted) == ["count", "queue", "reason"]
    for history in (array([]), longstr("none")):
        (only,) = die(Properties(headers={"x-death": history})).deaths
        assert (list(only) == sorted(only)) is (history == array([]))


def test_a_long_history_is_not_searched_for_each_queue() -> None:
    history = [death(f"q{at}", "expired", count=long(1)) for at in range(500)]
    letter = die(sent(*history), reason=Departure.EXPIRED)

    def ask() -> None:
        assert not any(letter.closes_circle(f"other {at}") for at in range(100))

    assert calls_of(ask) < 2_000


@given(st.lists(st.tuples(QUEUES, REASON), min_size=1, max_size=12))
def test_many_deaths_are_counted_with_the_latest_first(
    history: list[tuple[str, Departure]],
) -> None:
    properties = Properties()
    model: list[tuple[str, str]] = []
    counts: dict[tuple[str, str], int] = {}
    for queue, reason in history:
        letter = die(properties, queue, reason)
        properties = letter.properties
        key = (queue, REASONS[reason])
        model = [key, *(each for each in model if each != key)]
        counts[key] = counts.get(key, 0) + 1
        assert deaths(properties) == [(*each, counts[each]) for each in model]
        first = history[0]
        headers = properties.headers or {}
        assert texts(headers, "x-first-death-queue") == [first[0]]
        assert texts(headers, "x-last-death-queue", "x-last-death-reason") == list(key)
        for name in ("a", "b", "c"):
            been = [each[0] for each in model]
            automatic = name in been and all(
                each[1] != "rejected" for each in model[: been.index(name) + 1]
            )
            assert letter.closes_circle(name) is automatic
