"""Deaths: the headers of dead letters, against a model, and when a circle ends."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.routing.death import REASONS, DeadLetter, dead_letter_of
from arneb_amqp.wire.properties import Properties, decode_properties, encode_properties
from arneb_amqp.wire.route import Route
from arneb_amqp.wire.tables import Field, array, longstr, table
from arneb_core.api.limits import Departure

QUEUES = st.sampled_from(["a", "b", "c"])
REASON = st.sampled_from(Departure)


def die(
    properties: Properties,
    queue: str = "q",
    reason: Departure = Departure.REJECTED,
    *,
    key: str | None = None,
    before: bool = False,
    route: Route = Route("x", "k"),  # noqa: B008
) -> DeadLetter:
    return dead_letter_of(
        properties, route, queue=queue, reason=reason, now_s=7, routing_key=key, died_before=before
    )


def texts(fields: Mapping[str, Field], *names: str) -> list[str]:
    return [fields[name].text for name in names]


def deaths(properties: Properties) -> list[tuple[str, str, int]]:
    """Queue, reason and count of each death, as a client reads them off the wire."""
    headers = decode_properties(encode_properties(properties)).headers or {}
    found = []
    for each in headers["x-death"].value:  # type: ignore[union-attr]
        fields = each.value  # type: ignore[union-attr]
        found.append((*texts(fields, "queue", "reason"), fields["count"].value))
    return found


def test_a_first_death_says_everything() -> None:
    sent = Properties(
        headers={"CC": array([longstr("k2")]), "mine": longstr("1")}, expiration="60", priority=3
    )
    letter = die(sent, reason=Departure.EXPIRED)
    headers = letter.properties.headers or {}
    (death,) = letter.deaths
    assert list(death) == [
        "count", "exchange", "queue", "reason", "routing-keys", "time", "original-expiration",
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


def test_a_routing_key_of_the_queue_takes_the_place_of_all() -> None:
    letter = die(Properties(headers={"CC": array([longstr("k2")])}), key="other")
    assert (letter.routing_key, letter.copies) == ("other", ())
    assert "CC" not in (letter.properties.headers or {})
    assert letter.deaths[0]["routing-keys"] == array([longstr("k"), longstr("k2")])


def test_what_a_client_made_up_is_not_believed() -> None:
    forged = array(
        [table({"queue": longstr("q"), "reason": longstr("rejected"), "count": longstr("9")})]
    )
    sent = Properties(headers={"x-death": forged, "x-first-death-queue": longstr("nowhere")})
    letter = die(sent)
    assert deaths(letter.properties) == [("q", "rejected", 1)]
    assert texts(letter.properties.headers or {}, "x-first-death-queue") == ["q"]


@given(st.lists(st.tuples(QUEUES, REASON), min_size=1, max_size=12))
def test_many_deaths_are_counted_latest_first(history: list[tuple[str, Departure]]) -> None:
    properties = Properties()
    model: list[tuple[str, str]] = []
    counts: dict[tuple[str, str], int] = {}
    for index, (queue, reason) in enumerate(history):
        letter = die(properties, queue, reason, before=index > 0)
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
