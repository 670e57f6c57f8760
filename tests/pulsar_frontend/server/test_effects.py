"""Every effect that a session has is in the union that the effect runner is complete for."""

from dataclasses import is_dataclass
from typing import get_args

from arneb_pulsar.session.interface import effects, events


def test_the_unions_leave_nothing_out() -> None:
    """So that ``assert_never`` in the runner, and in the session, sees whatever is added."""
    for module, union in ((effects, effects.Effect), (events, events.Event)):
        defined = {
            each
            for each in vars(module).values()
            if is_dataclass(each) and each.__module__ == module.__name__  # type: ignore[union-attr]
        }
        assert defined == set(get_args(union))
