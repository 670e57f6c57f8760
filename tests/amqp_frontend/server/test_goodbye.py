"""A stopping broker waits for its clients' close-ok for as long as it was asked to."""

from typing import Any, cast

import pytest
import trio

from arneb_amqp.server.listener import Server
from arneb_amqp.server.roster import Roster


class Silent:
    """A connection that never answers."""

    def __init__(self) -> None:
        self.events: list[object] = []

    def tell(self, event: object) -> None:
        self.events.append(event)


@pytest.mark.parametrize("goodbye_s", [0.3, 1.0])
async def test_a_client_that_does_not_answer_is_waited_for_only_so_long(goodbye_s: float) -> None:
    roster, silent = Roster(), Silent()
    roster.enter(cast("Any", 1), cast("Any", silent), cast("Any", None))
    server = Server(cast("Any", None), roster, goodbye_s)
    began = trio.current_time()
    await server.say_goodbye()
    assert trio.current_time() - began == pytest.approx(goodbye_s)
    assert len(silent.events) == 1
