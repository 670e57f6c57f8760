"""Shortages: listeners hear of changes, and of nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.resource_alarms import NOTHING_SHORT, Resource, Short, Shortages

shorts = st.frozensets(st.sampled_from(Resource))


@given(st.lists(shorts))
def test_listeners_hear_of_every_change_once(declared: list[Short]) -> None:
    shortages, heard = Shortages(), list[Short]()
    shortages.listen(heard.append)
    expected = list[Short]()
    for short in declared:
        if short != shortages.short:
            expected.append(short)
        shortages.declare(short)
        assert shortages.short == short
    assert heard == expected


def test_who_leaves_while_being_told_disturbs_nobody() -> None:
    shortages, heard = Shortages(), list[str]()

    def leaves(_: Short) -> None:
        heard.append("leaves")
        shortages.leave(leaves)

    shortages.listen(leaves)
    shortages.listen(lambda _: heard.append("stays"))
    shortages.declare(frozenset(Resource))
    shortages.declare(NOTHING_SHORT)
    shortages.leave(leaves)
    assert heard == ["leaves", "stays", "stays"]
