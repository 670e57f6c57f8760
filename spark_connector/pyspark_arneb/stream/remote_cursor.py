"""The cursors of a broker, through its data API."""

from collections.abc import Iterable
from typing import Any

from arneb_core.api.entries.position import position_at
from pyspark_arneb.service.connection import Address, ask
from pyspark_arneb.service.errors import ServiceError
from pyspark_arneb.stream.cursor import CursorGone, CursorState, Positions
from pyspark_arneb.stream.offset import render_position


class RemoteCursors:
    """See :class:`.CursorService`. A cursor's owner has the cursor's own name, so any process that
    knows the name may continue with it."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def __repr__(self) -> str:
        return f"<RemoteCursors {self._address}>"

    def open(self, name: str, positions: Positions, lease_s: int) -> dict[str, CursorState]:
        topics = {
            topic: {"id": topic_id, "initial": render_position(position)}
            for topic, (topic_id, position) in positions.items()
        }
        return self._ask("open", name, {"lease_s": lease_s, "topics": topics})

    def acknowledge(self, name: str, positions: Positions) -> dict[str, CursorState]:
        topics = {
            topic: {"id": topic_id, "next": render_position(position)}
            for topic, (topic_id, position) in positions.items()
        }
        return self._ask("acknowledge", name, {"topics": topics})

    def remove(self, name: str, topics: Iterable[str]) -> None:
        document = {"subscription": name, "owner": name, "topics": list(topics)}
        ask(self._address, "POST", "/cursors/release", body=document)

    def _ask(self, what: str, name: str, document: dict[str, Any]) -> dict[str, CursorState]:
        document = {"subscription": name, "owner": name, **document}
        try:
            found = ask(self._address, "POST", f"/cursors/{what}", body=document)
        except ServiceError as error:
            if error.code == "cursor_gone":
                raise CursorGone(name) from error
            raise
        return {topic: _cursor_state(each) for topic, each in found["cursors"].items()}


def _cursor_state(document: dict[str, Any]) -> CursorState:
    ledger, _, entry = document["next"].partition(":")
    backlog = document["backlog"]
    return CursorState(
        position_at(int(ledger), int(entry)),
        backlog["messages"],
        backlog["bytes"],
        int(backlog["seconds"]),
        document.get("created", False),
    )
