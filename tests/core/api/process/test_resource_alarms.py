"""Resource alarms: listeners hear of changes, and of nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.process.resource_alarms import NOTHING_SHORT, Resource, ResourceAlarms, Short

shorts = st.frozensets(st.sampled_from(Resource))


@given(st.lists(shorts))
def test_listeners_hear_of_every_change_once(declared: list[Short]) -> None:
    resource_alarms, heard = ResourceAlarms(), list[Short]()
    resource_alarms.listen(heard.append)
    expected = list[Short]()
    for short in declared:
        if short != resource_alarms.short:
            expected.append(short)
        resource_alarms.declare(short)
        assert resource_alarms.short == short
    assert heard == expected


def test_a_listener_that_leaves_during_a_notification_does_not_affect_others() -> None:
    resource_alarms, heard = ResourceAlarms(), list[str]()

    def leaves(_: Short) -> None:
        heard.append("leaves")
        resource_alarms.leave(leaves)

    resource_alarms.listen(leaves)
    resource_alarms.listen(lambda _: heard.append("stays"))
    resource_alarms.declare(frozenset(Resource))
    resource_alarms.declare(NOTHING_SHORT)
    resource_alarms.leave(leaves)
    assert heard == ["leaves", "stays", "stays"]
