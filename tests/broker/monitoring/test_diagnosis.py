"""The diagnosis: the sentence for given figures, and that there is exactly one for any figures."""

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arneb.monitoring.diagnosis import Cause, Figures, diagnose, time_in_words

BUSY = Figures(1000, 60, consumers=3, incoming=100, delivered=100, acknowledged=100)


@pytest.mark.parametrize(
    ("figures", "cause", "sentence"),
    [
        (Figures(0), Cause.EMPTY, "Empty."),
        (
            Figures(0, consumers=1, incoming=40, acknowledged=40),
            Cause.EMPTY,
            "Empty: consumers keep up with 40/s.",
        ),
        (Figures(1), Cause.NO_CONSUMERS, "Nobody consumes: 1 message waiting."),
        (
            Figures(1200, incoming=5),
            Cause.NO_CONSUMERS,
            "Nobody consumes: 1,200 messages waiting, 5.0/s coming in.",
        ),
        (
            Figures(5, blocked_by="disk"),
            Cause.NO_CONSUMERS,
            "Nobody consumes: 5 messages waiting, and publishers wait for the disk alarm.",
        ),
        (
            Figures(500, consumers=1, blocked_by="memory"),
            Cause.BLOCKED,
            "Publishers wait for the memory alarm; 500 messages left to consume.",
        ),
        (
            replace(BUSY, full=3, acknowledged=40, messages_max=649_000),
            Cause.AT_PREFETCH,
            (
                "All 3 consumers are at their prefetch and acknowledging 40/s for 100/s coming in, "
                "full in about 3 h."
            ),
        ),
        (
            replace(BUSY, full=1, acknowledged=40),
            Cause.TOO_SLOW,
            "All 3 consumers are acknowledging 40/s for 100/s coming in.",
        ),
        (
            replace(BUSY, largest_holder="c1", largest_held=58),
            Cause.ONE_HOLDS,
            "One consumer of 3 (c1) holds 97 % of 60 messages unacknowledged.",
        ),
        (
            replace(BUSY, redelivered=80),
            Cause.REPEATED,
            "Consumers give messages back: 80/s of 100/s delivered were there before.",
        ),
        (
            replace(BUSY, acknowledged=1, expired=99),
            Cause.EXPIRING,
            "More expires (99/s) than is consumed (1.0/s).",
        ),
        (
            replace(BUSY, acknowledged=200),
            Cause.DRAINING,
            "Shrinks by 100/s: empty in about 11 s.",
        ),
        (BUSY, Cause.STEADY, "Steady: 100/s acknowledged for 100/s in."),
        (
            Figures(10, 20, consumers=1, full=1),
            Cause.AT_PREFETCH,
            "The consumer has as many messages as allowed (20 messages) and acknowledges nothing.",
        ),
        (Figures(0, delayed=7), Cause.DELAYED, "Waits for its time: 7 messages not due yet."),
        (Figures(2, delayed=7), Cause.NO_CONSUMERS, "Nobody consumes: 2 messages waiting."),
        (Figures(0, 3, consumers=1), Cause.STEADY, "Nothing moves: 3 messages at consumers."),
        (
            Figures(5, 1000, consumers=1),
            Cause.STEADY,
            "Nothing moves: 5 messages waiting, 1,000 at consumers.",
        ),
        (
            Figures(7, consumers=1, unreadable=True),
            Cause.UNREADABLE,
            (
                "Deliveries stand still in front of a message that cannot be read from disk; "
                "run `arneb check`."
            ),
        ),
    ],
)
def test_the_sentence_for_each_set_of_figures(
    figures: Figures, cause: Cause, sentence: str
) -> None:
    found = diagnose(figures)
    assert (found.cause, found.sentence) == (cause, sentence)


COUNTS = st.integers(0, 1_000_000)
RATES = st.floats(0, 1e6)


@given(
    st.builds(
        Figures, COUNTS, COUNTS, COUNTS, st.integers(0, 100), st.integers(0, 100), st.text(),
        COUNTS, RATES, RATES, RATES, RATES, RATES, st.none() | COUNTS,
        st.sampled_from(["", "disk", "memory"]), st.booleans(),
    )
)  # fmt: skip
@example(Figures(1, 0, consumers=2, largest_held=10))  # counted one after the other
def test_any_figures_lead_to_one_sentence(figures: Figures) -> None:
    found = diagnose(figures)
    assert found.sentence.endswith(".")
    assert (found.cause is Cause.EMPTY) <= (figures.messages == 0)
    if figures.messages and not figures.consumers and not figures.unreadable:
        assert found.cause in (Cause.NO_CONSUMERS, Cause.DELAYED)
    if found.cause is Cause.DRAINING:
        assert figures.growth < 0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (89, "89 s"), (90, "2 min"), (7200, "2 h"), (400_000, "5 days")],
)
def test_times_are_given_in_a_suitable_unit(seconds: float, words: str) -> None:
    assert time_in_words(seconds) == words
