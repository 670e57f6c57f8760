"""Direct reply-to names: one per channel, valid while its consumer exists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.errors import ChannelException
from arneb_amqp.routing.reply_to import PREFIX, REPLY_TO, ReplyTo, is_reply_queue

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.booleans()),
        st.tuples(st.just("end"), st.sampled_from(["mine", "another's"])),
        st.tuples(st.just("publish"), st.none()),
    ),
    max_size=20,
)


@given(STEPS)
def test_a_name_exists_exactly_while_a_consumer_does(steps: list[tuple[str, object]]) -> None:
    reply_to = ReplyTo()
    name: str | None = None
    for number, (step, detail) in enumerate(steps):
        if step == "begin":
            expected = None
            if name is not None:
                expected = "reply consumer already set"
            elif not detail:
                expected = "reply consumer cannot acknowledge"
            if expected is None:
                reply_to.check(no_ack=bool(detail))
                name = reply_to.begin(str(number), "mine")
                assert name == f"{PREFIX}{number}"
                continue
            with pytest.raises(ChannelException, match=expected):
                reply_to.check(no_ack=bool(detail))
        elif step == "end":
            reply_to.ended(str(detail))
            name = None if detail == "mine" else name
        elif name is None:
            with pytest.raises(ChannelException, match="fast reply consumer does not exist"):
                _ = reply_to.current
        else:
            assert reply_to.current == name


def test_only_names_that_were_given_out_are_for_replies() -> None:
    assert is_reply_queue(PREFIX + "x")
    assert not is_reply_queue(REPLY_TO)
    assert not is_reply_queue("orders")
