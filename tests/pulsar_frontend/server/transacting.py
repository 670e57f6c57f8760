"""Transactions over a raw connection: commands, and answers taken apart."""

from typing import Any

from tests.pulsar_frontend.raw_client import RawClient, body_of
from tests.pulsar_frontend.session.playbook import received

from arneb_pulsar.wire.proto import pulsar_pb2 as pb

TIMEOUT_MS = 60_000


class Refused(Exception):
    """The coordinator, or whoever acknowledges, said no."""

    def __init__(self, reply: Any) -> None:
        super().__init__(f"{pb.ServerError.Name(reply.error)}: {reply.message}")
        self.code = reply.error


async def asked(client: RawClient, command: Any, kind: type[Any]) -> Any:
    """The answer to a command. Raises :class:`Refused`."""
    await client.send(command)
    reply = await client.expect(kind)
    if reply.HasField("error"):
        raise Refused(reply)
    return reply


def named(transaction: Any) -> dict[str, int]:
    """The id of one as commands have it."""
    return {
        "txnid_most_bits": transaction.txnid_most_bits,
        "txnid_least_bits": transaction.txnid_least_bits,
    }


async def begin(client: RawClient, timeout_ms: int = TIMEOUT_MS) -> Any:
    command = pb.CommandNewTxn(request_id=1, txn_ttl_seconds=timeout_ms, tc_id=0)
    return await asked(client, command, pb.CommandNewTxnResponse)


async def add(client: RawClient, transaction: Any, *topics: str) -> None:
    command = pb.CommandAddPartitionToTxn(request_id=2, partitions=topics, **named(transaction))
    await asked(client, command, pb.CommandAddPartitionToTxnResponse)


async def end(client: RawClient, transaction: Any, *, commit: bool) -> None:
    action = pb.COMMIT if commit else pb.ABORT
    command = pb.CommandEndTxn(request_id=3, txn_action=action, **named(transaction))
    await asked(client, command, pb.CommandEndTxnResponse)


async def send(
    client: RawClient,
    transaction: Any,
    *payloads: bytes,
    producer_id: int = 1,
    first: int = 0,
    **metadata: Any,
) -> list[Any]:
    """Send messages and wait for their receipts."""
    for index, payload in enumerate(payloads):
        number = first + index
        command = pb.CommandSend(producer_id=producer_id, sequence_id=number, **named(transaction))
        body = body_of(payload, sequence_id=number, **metadata)
        await client.stream.send_all(received(command, body=body).data)
    return [(await client.reply())[0] for _ in payloads]


async def acknowledge(
    client: RawClient, transaction: Any, *ids: Any, consumer_id: int = 1, cumulative: bool = False
) -> None:
    """Acknowledge and wait for the receipt. Raises :class:`Refused`."""
    kind = pb.CommandAck.Cumulative if cumulative else pb.CommandAck.Individual
    command = pb.CommandAck(
        consumer_id=consumer_id, ack_type=kind, message_id=ids, request_id=9, **named(transaction)
    )
    await asked(client, command, pb.CommandAckResponse)
