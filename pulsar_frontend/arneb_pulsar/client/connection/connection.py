"""One connection: the machine on a stream, with a task that reads and one that writes.

The rule: senders only add to the machine's output and call :meth:`Connection.flush`; none waits for
the socket. The producers' bounds on pending sends bound the output.
"""

import logging
import math
import socket
from typing import Any, Final

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketStream, TaskGroup

from arneb_pulsar.client.connection.authentication import Authentication, proof
from arneb_pulsar.client.connection.dialling import Address, Dial
from arneb_pulsar.client.connection.machine import ConnectionMachine, State
from arneb_pulsar.client.errors import (
    ClientClosed,
    ConnectError,
    Disconnected,
    PulsarError,
    TimedOut,
)
from arneb_pulsar.client.tasks.clock import Clock
from arneb_pulsar.client.tasks.waiting import Bell, Outcome
from arneb_pulsar.wire.commands import PROTOCOL_VERSION
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    AuthData,
    CommandAuthResponse,
    CommandConnect,
    FeatureFlags,
)

LOG = logging.getLogger("arneb_pulsar.client")

READ_BYTES: Final = 256 * 1024
"""Bytes per read: a consumer that lags gets many entries at each wake-up."""

WRITE_BYTES: Final = 256 * 1024
"""About the bytes joined for one write; joining more only costs memory."""

CLIENT_VERSION: Final = "Arneb-Python"

FLAGS: Final = FeatureFlags(
    supports_auth_refresh=True,
    supports_broker_entry_metadata=True,
    supports_partial_producer=True,
    supports_topic_watchers=True,
    supports_get_partitioned_metadata_without_auto_creation=True,
)


class Connection:
    """An open connection. Made by :func:`open_connection`."""

    def __init__(
        self,
        stream: ByteStream,
        machine: ConnectionMachine,
        clock: Clock,
        authentication: Authentication,
    ) -> None:
        self.machine = machine
        self._stream = stream
        self._clock = clock
        self._authentication = authentication
        self._wanted = Bell()
        self._writes = False
        """The writing task has taken output that is not completely written yet."""
        self._socket = _socket_of(stream)
        self._scope = anyio.CancelScope()
        self._opened: Outcome[None] = Outcome()
        self._keep_alive = clock.timer(self._tick)

    def __repr__(self) -> str:
        return f"<Connection {self.machine!r}>"

    @property
    def is_open(self) -> bool:
        """Whether the handshake is done and the connection is not closed."""
        return self.machine.state is State.OPEN

    def flush(self) -> None:
        """Have the writing task send the machine's output."""
        self._wanted.ring()

    def flush_now(self) -> None:
        """Send output that somebody waits for in this turn, as far as the socket takes it, unless
        the writing task is in the middle of a write; :meth:`flush` takes two passes of the event
        loop, but joins what comes meanwhile."""
        output = self.machine.output
        if self._socket is not None and output and not self._writes:
            data = _taken(output)
            try:
                sent = self._socket.send(data)
            except OSError:
                sent = 0  # the socket is full, or closed, which the reading task notices too
            if sent < len(data):
                output.insert(0, data[sent:])
        if output:
            self.flush()

    async def request(self, command: Any, what: str, timeout_s: float = math.inf) -> Any:
        """Send a command and return the response; ``what`` names it in errors. If cancelled, the
        response is ignored.

        Raises the broker's error, :class:`Disconnected` and :class:`TimedOut`."""
        outcome: Outcome[Any] = Outcome()

        def answered(reply: Any, error: PulsarError | None) -> None:
            if error is None:
                outcome.set(reply)
            else:
                outcome.fail(error)

        number = self.machine.request(command, what, answered)
        self.flush()
        try:
            with anyio.fail_after(None if timeout_s == math.inf else timeout_s):
                return await outcome.wait()
        except TimeoutError as error:
            if isinstance(error, PulsarError):
                raise
            raise TimedOut(f"{what}: no answer of {self.machine.where} in {timeout_s} s") from None
        finally:
            self.machine.forget(number)

    async def ping(self, timeout_s: float) -> None:
        """Ping the broker and wait for its PONG. Raises :class:`Disconnected`,
        :class:`TimedOut`."""
        alive: Outcome[None] = Outcome()
        self.machine.ping(lambda _reply, error: alive.fail(error) if error else alive.set(None))
        self.flush()
        try:
            with anyio.fail_after(timeout_s):
                await alive.wait()
        except TimeoutError as error:
            if isinstance(error, PulsarError):
                raise
            raise TimedOut(f"no sign of life of {self.machine.where} in {timeout_s} s") from None

    def close(self, error: PulsarError | None = None) -> None:
        """Close the connection; its users get ``error``."""
        self.machine.lost(
            error or ClientClosed(f"the connection to {self.machine.where} was closed")
        )
        self._keep_alive.set(None)
        self._scope.cancel()

    async def opened(self) -> None:
        """Wait for the end of the handshake. Raises :class:`ConnectError` and the broker's
        error."""
        await self._opened.wait()

    async def run(self) -> None:
        """Read and write until the connection ends; its users are then told why."""
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._write)
                    tasks.start_soon(self._read, tasks)
        finally:
            self.close()
            self._opened.fail(self.machine.failure or ClientClosed("the connection was closed"))
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(self._stream)

    async def _read(self, tasks: TaskGroup) -> None:
        machine = self.machine
        try:
            while machine.state is not State.CLOSED:
                data = await self._stream.receive(READ_BYTES)
                machine.receive(data, self._clock.now())
                if machine.output:
                    self._wanted.ring()
                if machine.state is State.OPEN and not self._opened.is_set:
                    self._opened.set(None)
                    self._keep_alive.set(machine.due())
                if machine.challenges:
                    # Getting credentials may take long, and the broker's PINGs need answers.
                    tasks.start_soon(self._answer, len(machine.challenges))
                    machine.challenges.clear()
        except anyio.EndOfStream:
            self.close(Disconnected(f"{machine.where} closed the connection"))
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as reason:
            self.close(Disconnected(f"the connection to {machine.where} broke: {reason!r}"))
        except PulsarError as reason:
            self.close(reason)
        else:
            self.close()

    async def _write(self) -> None:
        machine, output = self.machine, self.machine.output
        try:
            while machine.state is not State.CLOSED:
                if output:
                    self._writes = True
                    await self._stream.send(_taken(output))
                    self._writes = False
                else:
                    await self._wanted.wait()
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as reason:
            self.close(Disconnected(f"the connection to {machine.where} broke: {reason!r}"))

    async def _answer(self, challenges: int) -> None:
        """Answer the broker's authentication challenges."""
        authentication = self._authentication
        try:
            for _ in range(challenges):
                proved = await proof(authentication, authentication.data)
                data = AuthData(auth_method_name=authentication.method, auth_data=proved)
                self.machine.send(
                    CommandAuthResponse(
                        client_version=CLIENT_VERSION,
                        response=data,
                        protocol_version=PROTOCOL_VERSION,
                    )
                )
        except PulsarError as reason:
            self.close(reason)
        self.flush()

    def _tick(self, now: float) -> None:
        self.machine.tick(now)
        if self.machine.state is State.CLOSED:
            self.close()
            return
        self.flush()
        self._keep_alive.set(self.machine.due())


def _socket_of(stream: ByteStream) -> socket.socket | None:
    """Return the socket if it may be written to directly; None for TLS and streams in memory."""
    if not isinstance(stream, SocketStream):
        return None
    return stream.extra(SocketAttribute.raw_socket, None)


def _taken(output: list[bytes]) -> bytes:
    """Take frames from the front of ``output`` until they reach ``WRITE_BYTES``; join them."""
    size = taken = 0
    while taken < len(output) and size < WRITE_BYTES:
        size += len(output[taken])
        taken += 1
    data = output[0] if taken == 1 else b"".join(output[:taken])
    del output[:taken]
    return data


async def open_connection(
    address: Address,
    dial: Dial,
    authentication: Authentication,
    clock: Clock,
    tasks: TaskGroup,
    *,
    timeout_s: float,
    through: Address | None = None,
) -> Connection:
    """Open a connection to ``address``; ``through`` is a proxy to dial instead.

    Raises :class:`ConnectError`, :class:`AuthenticationFailed` and the broker's other errors.
    """
    opening = CommandConnect(
        client_version=CLIENT_VERSION,
        auth_method_name=authentication.method,
        auth_data=await proof(authentication, authentication.data),
        protocol_version=PROTOCOL_VERSION,
        feature_flags=FLAGS,
    )
    if through is not None and through != address:
        opening.proxy_to_broker_url = f"{address.host}:{address.port}"
    dialled = through or address
    stream = await dial(dialled)
    machine = ConnectionMachine(str(address), opening, clock.now(), tls=address.tls)
    connection = Connection(stream, machine, clock, authentication)
    tasks.start_soon(connection.run)
    try:
        with anyio.fail_after(timeout_s):
            await connection.opened()
    except TimeoutError as error:
        if isinstance(error, PulsarError):
            raise
        failure = ConnectError(f"expected CONNECTED of {address} within {timeout_s} s, got nothing")
        connection.close(failure)
        raise failure from None
    except BaseException:
        connection.close()
        raise
    return connection
