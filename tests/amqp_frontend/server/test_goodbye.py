"""A broker that stops waits for its clients' goodbyes, for as long as it was told to."""

from typing import Any, cast

import pytest
import trio

from arneb_amqp.server.listener import Server
from arneb_amqp.server.roster import Roster


class Silent:
    """A connection that says nothing more."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def tell(self, event: object) -> None:
        self.told.append(event)


@pytest.mark.parametrize("goodbye_s", [0.3, 1.0])
async def test_who_does_not_answer_is_waited_for_as_long_as_is_said(goodbye_s: float) -> None:
    roster, silent = Roster(), Silent()
    roster.enter(cast("Any", 1), cast("Any", silent), cast("Any", None))
    server = Server(cast("Any", None), roster, goodbye_s)
    began = trio.current_time()
    await server.say_goodbye()
    assert trio.current_time() - began == pytest.approx(goodbye_s)
    assert len(silent.told) == 1
