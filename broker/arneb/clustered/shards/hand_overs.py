"""Hand-overs: an operator may ask any node for another leader, and the request reaches the current
leader.

The rule: only a leader hands over, and only it knows which nodes can follow it; any other node asks
it through the internal port and passes its answer on.
"""

import json
import logging
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final

import trio

from arneb.control.serving import NotPossible
from arneb_cluster.handing_over import FOLLOWED_S, RESIGN_S, NotHandedOver, hand_over
from arneb_cluster.protocol.leadership import State
from arneb_cluster.routing.calling import call
from arneb_cluster.routing.internal_port import Serve
from arneb_cluster.routing.internal_protocol import Request
from arneb_cluster.routing.internal_settings import InternalSettings
from arneb_cluster.routing.internal_stream import InternalStream
from arneb_cluster.shard import Shard
from arneb_core.api.connections.tls_records import TlsRecords
from arneb_core.api.nodes.placement import Elsewhere, NodeAddresses, NotServed
from arneb_core.api.process.clock import wall_clock_ms

HAND_OVER: Final = "hand-over"
"""The kind of such requests at the internal port."""

ANSWER_S: Final = 15.0 + RESIGN_S + FOLLOWED_S + 5.0
"""The longest wait for the leader. A leader that has not answered by then hangs, and another will
lead soon; a new leader may have to wait for three reports first."""

ANSWER_BYTES_MAX: Final = 16 * 1024

logger = logging.getLogger(__name__)


class HandOvers:
    """The hand-overs of this node's shards."""

    def __init__(self, settings: InternalSettings, shards: Sequence[Shard]) -> None:
        self._settings = settings
        self._shards = {each.settings.shard: each for each in shards}

    def __repr__(self) -> str:
        return f"<HandOvers of {', '.join(self._shards)}>"

    async def hand_over(self, name: str, successor: str) -> Mapping[str, Any]:
        """Hand the shard ``name`` (may be empty if there is only one) over to ``successor``, or to
        the most up-to-date node; return the result as JSON values. Raises :class:`NotPossible`."""
        if not name and len(self._shards) == 1:
            [name] = self._shards
        shard = self._shards.get(name)
        if shard is None:
            known = " or ".join(f"'{each}'" for each in self._shards)
            raise NotPossible(f"expected the shard {known} of this node, got '{name}'")
        placement = shard.placement
        if shard.state is not State.LEADING and isinstance(placement, Elsewhere):
            return await self._ask(placement.addresses, name, successor)
        try:
            done = await hand_over(shard, successor, wall_clock_ms)
        except NotHandedOver as error:
            raise NotPossible(str(error)) from error
        return {"shard": name, **done._asdict()}

    def prepare(self, request: Request) -> Serve:
        """Return a function that answers another node. Raises :class:`NotServed`."""
        try:
            order: Any = json.loads(request.document)
            name, successor = str(order["shard"]), str(order["to"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise NotServed(f"expected the successor's name: {error!r:.100}") from error
        shard = self._shards.get(name)
        if shard is None or shard.state is not State.LEADING:
            raise NotServed(f"node '{self._settings.node}' does not lead shard '{name}'")

        async def serve(sock: socket.socket, records: TlsRecords | None, early: bytes) -> None:
            stream = InternalStream(trio.socket.from_stdlib_socket(sock), records, early)
            try:
                answer = await self._answer(name, successor)
                await stream.send_all(json.dumps(answer).encode())
                await stream.send_eof()
            except trio.BrokenResourceError:
                logger.warning("the node that asked for a hand-over of shard %s is gone", name)
            finally:
                await trio.aclose_forcefully(stream)

        return serve

    async def _answer(self, name: str, successor: str) -> Mapping[str, Any]:
        try:
            return {"done": await self.hand_over(name, successor)}
        except NotPossible as refused:
            return {"refused": str(refused)}

    async def _ask(self, leader: NodeAddresses, name: str, successor: str) -> Mapping[str, Any]:
        document = json.dumps({"shard": name, "to": successor}).encode()
        if not leader.internal:
            raise NotPossible(f"ask node '{leader.node}', which leads and has no internal port")
        try:
            called = await call(self._settings, leader, Request(HAND_OVER, name, document))
            with trio.fail_after(ANSWER_S):
                found: Any = json.loads(await _whole(called.stream, called.early))
            refused, done = found.get("refused"), found.get("done")
        except NotServed as error:
            raise NotPossible(str(error)) from error
        except (trio.BrokenResourceError, trio.TooSlowError, ValueError, AttributeError) as error:
            text = f"node '{leader.node}' was asked, and what came of it is not known"
            raise NotPossible(f"{text}: {error!r:.200}") from error
        if not isinstance(done, dict):
            raise NotPossible(str(refused))
        return done


async def _whole(stream: InternalStream, early: bytes) -> bytes:
    """Read to the end of the stream. Raises :class:`ValueError` for too much."""
    received = early
    try:
        while len(received) <= ANSWER_BYTES_MAX and (data := await stream.receive_some()):
            received += data
    finally:
        await trio.aclose_forcefully(stream)
    if len(received) > ANSWER_BYTES_MAX:
        raise ValueError(f"expected an answer of at most {ANSWER_BYTES_MAX} bytes")
    return received
