"""Every command against its rule, over real sockets: with just the right, and with all but that."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import jwt
import pytest
import trio
from google.protobuf.message import Message
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import Closed, RawClient
from tests.pulsar_frontend.server.transacting import begin, named, send

from arneb_pulsar.admin.policies.permissions import granted, revoked
from arneb_pulsar.authorization.authorizer import Users
from arneb_pulsar.config import AuthenticationConfig, AuthorizationConfig
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.namespaces.rules import SubscriptionAuthMode
from arneb_pulsar.server.listener import PulsarServer
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.session.connection.rules import (
    BETWEEN_BROKERS,
    OF_CONSUMER,
    OF_OWNER,
    OF_PRODUCER,
    RULES,
)
from arneb_pulsar.session.transitions import ACCEPTED
from arneb_pulsar.transactions.states import COORDINATORS
from arneb_pulsar.wire.commands import FIELD_OF
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import BaseCommand

pytestmark = pytest.mark.real_time

SECRET = bytes(range(32))
NAMESPACE = "public/default"
ELSEWHERE = "public/other"
EVERYTHING = ("produce", "consume", "functions", "sources", "sinks", "packages")
SCHEMA = pb.Schema(name="s", schema_data=b"", type=pb.Schema.String)

Change = Callable[[Policies], Policies]


def token(role: str) -> bytes:
    return jwt.encode({"sub": role}, SECRET, "HS256").encode()


@dataclass
class Guarded:
    """A broker that asks for rights, at a port."""

    context: BrokerContext
    port: int
    clients: list[RawClient] = field(default_factory=list)

    async def connect(self, role: str, **fields: Any) -> RawClient:
        """A client that has proved that role."""
        client = await self.stranger()
        await client.send(connect(role, **fields))
        answer, _ = await client.reply()
        assert isinstance(answer, pb.CommandConnected), answer
        return client

    async def stranger(self) -> RawClient:
        client = RawClient(await trio.open_tcp_stream("127.0.0.1", self.port))
        self.clients.append(client)
        return client

    async def grant(self, namespace: str, role: str, *actions: str) -> None:
        change = granted(role, list(actions)) if actions else revoked(role)
        await self.change(namespace, change)

    async def change(self, namespace: str, change: Change) -> None:
        """As the admin API does it."""
        await self.context.namespaces.change_namespace(namespace, change)
        await self.context.rights.look()


def connect(role: str, **fields: Any) -> pb.CommandConnect:
    return pb.CommandConnect(
        client_version="test",
        protocol_version=20,
        auth_method_name="token",
        auth_data=token(role),
        **fields,
    )


@asynccontextmanager
async def guarded(
    open_broker: OpenBroker, tmp_path: Path, *, users: Users | None = None, **settings: Any
) -> AsyncIterator[Guarded]:
    (tmp_path / "secret").write_bytes(SECRET)
    proofs = AuthenticationConfig(("token",), token_secret_key=tmp_path / "secret")
    values = {"super_user_roles": ("root",), "proxy_roles": ("relay",)} | settings
    rights = AuthorizationConfig(True, **values)
    more = {} if users is None else {"users": users}
    async with open_broker(
        authentication=proofs, authorization=rights, namespaces=(NAMESPACE, ELSEWHERE), **more
    ) as running:
        server = PulsarServer(running.context)
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with trio.open_nursery() as nursery:
            await nursery.start(server.serve, listeners)
            broker = Guarded(running.context, listeners[0].socket.getsockname()[1])
            client = await broker.connect("root")
            assert isinstance(await client.producer("t"), pb.CommandProducerSuccess)
            await client.publish(b"x")
            assert isinstance((await client.reply())[0], pb.CommandSendReceipt)
            yield broker
            for client in broker.clients:
                await trio.aclose_forcefully(client.stream)
            nursery.cancel_scope.cancel()


@dataclass(frozen=True)
class Case:
    """A command, what just suffices for it, and how it is answered to those who lack that."""

    command: Message
    actions: Sequence[str]
    """Each of them by itself."""
    error: Callable[[Any], int]


def in_error(answer: Any) -> int:
    assert isinstance(answer, pb.CommandError), answer
    return int(answer.error)


def in_answer(kind: type[Message], field: str = "error") -> Callable[[Any], int]:
    def error(answer: Any) -> int:
        assert isinstance(answer, kind), answer
        return int(getattr(answer, field)) if answer.HasField(field) else -1

    return error


EITHER = ("produce", "consume")

CASES = {
    BaseCommand.LOOKUP: Case(
        pb.CommandLookupTopic(topic="t", request_id=7),
        EITHER,
        in_answer(pb.CommandLookupTopicResponse),
    ),
    BaseCommand.PARTITIONED_METADATA: Case(
        pb.CommandPartitionedTopicMetadata(topic="t", request_id=7),
        EITHER,
        in_answer(pb.CommandPartitionedTopicMetadataResponse),
    ),
    BaseCommand.GET_TOPICS_OF_NAMESPACE: Case(
        pb.CommandGetTopicsOfNamespace(namespace=NAMESPACE, request_id=7), EITHER, in_error
    ),
    BaseCommand.WATCH_TOPIC_LIST: Case(
        pb.CommandWatchTopicList(
            namespace=NAMESPACE, request_id=7, watcher_id=1, topics_pattern=".*"
        ),
        EITHER,
        in_error,
    ),
    BaseCommand.PRODUCER: Case(
        pb.CommandProducer(topic="t", producer_id=3, request_id=7), ("produce",), in_error
    ),
    BaseCommand.SUBSCRIBE: Case(
        pb.CommandSubscribe(
            topic="t",
            subscription="s",
            subType=pb.CommandSubscribe.Shared,
            consumer_id=3,
            request_id=7,
        ),
        ("consume",),
        in_error,
    ),
    BaseCommand.GET_SCHEMA: Case(
        pb.CommandGetSchema(topic="t", request_id=7),
        EITHER,
        in_answer(pb.CommandGetSchemaResponse, "error_code"),
    ),
    BaseCommand.GET_OR_CREATE_SCHEMA: Case(
        pb.CommandGetOrCreateSchema(topic="t", request_id=7, schema=SCHEMA),
        ("produce",),
        in_answer(pb.CommandGetOrCreateSchemaResponse, "error_code"),
    ),
}


def test_every_command_that_is_accepted_has_its_rule() -> None:
    assert frozenset(RULES) == frozenset().union(*ACCEPTED.values())
    assert frozenset(RULES) <= frozenset(FIELD_OF)


def test_every_rule_that_needs_something_is_tried() -> None:
    assert set(CASES) == {kind for kind, rule in RULES.items() if rule.needs}


@pytest.mark.parametrize("kind", CASES, ids=BaseCommand.Type.Name)
async def test_a_client_that_lacks_just_the_right_is_refused(
    open_broker: OpenBroker, tmp_path: Path, kind: int
) -> None:
    case = CASES[kind]
    async with guarded(open_broker, tmp_path) as broker:
        for action in EVERYTHING:
            await broker.grant(NAMESPACE, f"has {action}", action)
        others = [each for each in EVERYTHING if each not in case.actions]
        await broker.grant(NAMESPACE, "lacking", *others)
        await broker.grant(ELSEWHERE, "lacking", *EVERYTHING)
        await broker.context.namespaces.put_tenant("public", {"adminRoles": ["admin"]})
        await broker.context.namespaces.put_tenant("stranger", {"adminRoles": ["lacking"]})
        for role in ("lacking", "nobody"):
            client = await broker.connect(role)
            await client.send(case.command)
            answer, _ = await client.reply()
            assert case.error(answer) == pb.AuthorizationError
            assert getattr(answer, "message", RULES[kind].text) in (RULES[kind].text, "")
        for role in (*(f"has {action}" for action in case.actions), "admin", "root"):
            client = await broker.connect(role)
            await client.send(case.command)
            answer, _ = await client.reply()
            if not isinstance(answer, pb.CommandError) and case.error is not in_error:
                assert case.error(answer) != pb.AuthorizationError, role
            else:
                assert not isinstance(answer, pb.CommandError), (role, answer)


async def test_asking_for_partitions_of_an_unknown_tenant_says_so(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    async with guarded(open_broker, tmp_path) as broker:
        await broker.context.namespaces.put_tenant("made", {"adminRoles": ["admin"]})
        client = await broker.connect("nobody")
        missing = "Tenant or namespace or topic does not exist: nowhere/at-all"
        refused = RULES[BaseCommand.PARTITIONED_METADATA].text
        for namespace, expected in (
            ("nowhere/at-all", (pb.TopicNotFound, missing)),
            ("made/not-there", (pb.AuthorizationError, refused)),
            ("public/not-there", (pb.AuthorizationError, refused)),
        ):
            topic = f"persistent://{namespace}/t"
            await client.send(pb.CommandPartitionedTopicMetadata(topic=topic, request_id=7))
            answer = await client.expect(pb.CommandPartitionedTopicMetadataResponse)
            assert (answer.error, answer.message) == expected
        await client.send(
            pb.CommandLookupTopic(topic="persistent://nowhere/at-all/t", request_id=8)
        )
        looked_up = await client.expect(pb.CommandLookupTopicResponse)
        assert looked_up.error == pb.AuthorizationError


async def test_an_initial_subscription_needs_the_right_to_consume_too(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    async with guarded(open_broker, tmp_path) as broker:
        await broker.grant(NAMESPACE, "p", "produce")
        await broker.grant(NAMESPACE, "both", "produce", "consume")
        client = await broker.connect("p")
        refused = await client.producer("t", initial_subscription_name="first")
        assert (refused.error, refused.message) == (
            pb.AuthorizationError, "Client is not authorized to Produce",
        )  # fmt: skip
        assert (
            "first" not in broker.context.core.topic("persistent://public/default/t").subscriptions
        )
        client = await broker.connect("both")
        opened = await client.producer("t", initial_subscription_name="first")
        assert isinstance(opened, pb.CommandProducerSuccess)


async def test_a_subscription_may_be_for_some_or_bear_their_names(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    async with guarded(open_broker, tmp_path) as broker:
        for role in ("ann", "bob"):
            await broker.grant(NAMESPACE, role, "consume")
        await broker.change(NAMESPACE, lambda it: replace(it, subscription_roles={"s": ["ann"]}))
        ann, bob = await broker.connect("ann"), await broker.connect("bob")
        assert (await bob.subscribe("t")).message == "Client is not authorized to subscribe"
        assert isinstance(await bob.subscribe("t", subscription="other"), pb.CommandSuccess)
        assert isinstance(await ann.subscribe("t"), pb.CommandSuccess)
        prefix = SubscriptionAuthMode.PREFIX
        await broker.change(NAMESPACE, lambda it: replace(it, subscription_auth_mode=prefix))
        for client in (ann, bob):  # neither subscription bears its name
            await client.expect(pb.CommandCloseConsumer)
        refused = await ann.subscribe("t")
        assert refused.error == pb.AuthorizationError
        assert "needs to be prefixed by the authentication role, like ann-xxxx" in refused.message
        bears = await bob.subscribe("t", 2, subscription="bob-s")
        assert isinstance(bears, pb.CommandSuccess)


@dataclass(frozen=True)
class Held:
    """A client with a consumer and a producer, whose rights are taken away."""

    client: RawClient
    broker: Guarded


@asynccontextmanager
async def revoked_client(open_broker: OpenBroker, tmp_path: Path) -> AsyncIterator[Held]:
    async with guarded(open_broker, tmp_path) as broker:
        await broker.grant(NAMESPACE, "me", "produce", "consume")
        client = await broker.connect("me")
        assert isinstance(
            await client.subscribe("t", initialPosition=pb.CommandSubscribe.Earliest),
            pb.CommandSuccess,
        )
        assert isinstance(await client.producer("t"), pb.CommandProducerSuccess)
        await broker.grant(NAMESPACE, "me")
        closed = {type((await client.reply())[0]) for _ in range(2)}
        assert closed == {pb.CommandCloseProducer, pb.CommandCloseConsumer}
        yield Held(client, broker)


ANSWERED = {
    BaseCommand.SEEK: pb.CommandSeek(
        consumer_id=1, request_id=9, message_id=pb.MessageIdData(ledgerId=1, entryId=0)
    ),
    BaseCommand.GET_LAST_MESSAGE_ID: pb.CommandGetLastMessageId(consumer_id=1, request_id=9),
    BaseCommand.CONSUMER_STATS: pb.CommandConsumerStats(consumer_id=1, request_id=9),
    BaseCommand.UNSUBSCRIBE: pb.CommandUnsubscribe(consumer_id=1, request_id=9),
}
UNANSWERED = {
    BaseCommand.FLOW: pb.CommandFlow(consumer_id=1, messagePermits=10),
    BaseCommand.ACK: pb.CommandAck(
        consumer_id=1,
        ack_type=pb.CommandAck.Cumulative,
        message_id=[pb.MessageIdData(ledgerId=1, entryId=0)],
    ),
    BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES: pb.CommandRedeliverUnacknowledgedMessages(
        consumer_id=1
    ),
}


async def test_a_consumer_that_may_not_go_on_can_ask_for_nothing_more(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    rows = {kind for kind, rule in RULES.items() if rule.reason == OF_CONSUMER}
    assert rows == {*ANSWERED, *UNANSWERED}
    async with revoked_client(open_broker, tmp_path) as held:
        topic = held.broker.context.core.topic("persistent://public/default/t")
        for command in ANSWERED.values():
            await held.client.send(command)
            answer, _ = await held.client.reply()
            error = getattr(answer, "error", None) or getattr(answer, "error_code", None)
            assert error, (command, answer)
        for command in UNANSWERED.values():
            await held.client.send(command)
        assert await held.client.silent()
        subscription = topic.subscriptions["s"]
        assert subscription.statistics().backlog_entries == 1
        assert not subscription.consumers


async def test_a_producer_that_may_not_go_on_sends_nothing_more(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    assert {kind for kind, rule in RULES.items() if rule.reason == OF_PRODUCER} == {
        BaseCommand.SEND
    }
    async with revoked_client(open_broker, tmp_path) as held:
        topic = held.broker.context.core.topic("persistent://public/default/t")
        before = topic.statistics().entries
        await held.client.publish(b"no more")
        assert await held.client.silent()
        assert topic.statistics().entries == before
        assert (await held.client.producer("t")).error == pb.AuthorizationError


async def test_what_brokers_say_about_transactions_is_refused_to_everybody(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    commands = {
        BaseCommand.END_TXN_ON_PARTITION: (
            pb.CommandEndTxnOnPartition(request_id=5),
            pb.CommandEndTxnOnPartitionResponse,
        ),
        BaseCommand.END_TXN_ON_SUBSCRIPTION: (
            pb.CommandEndTxnOnSubscription(request_id=5),
            pb.CommandEndTxnOnSubscriptionResponse,
        ),
    }
    assert set(commands) == {k for k, rule in RULES.items() if rule.reason == BETWEEN_BROKERS}
    async with guarded(open_broker, tmp_path) as broker:
        client = await broker.connect("root")
        for command, answer in commands.values():
            await client.send(command)
            assert (await client.expect(answer)).error == pb.NotAllowedError


async def test_a_transaction_is_its_owners(open_broker: OpenBroker, tmp_path: Path) -> None:
    async with guarded(open_broker, tmp_path) as broker:
        await broker.grant(NAMESPACE, "me", "produce", "consume")
        await broker.grant(NAMESPACE, "other", "produce", "consume")
        mine, theirs = await broker.connect("me"), await broker.connect("other")
        transaction = await begin(mine)
        id_of = named(transaction)
        asked: dict[int, Any] = {
            BaseCommand.ADD_PARTITION_TO_TXN: pb.CommandAddPartitionToTxn(
                request_id=5, partitions=["t"], **id_of
            ),
            BaseCommand.ADD_SUBSCRIPTION_TO_TXN: pb.CommandAddSubscriptionToTxn(
                request_id=5,
                subscription=[pb.Subscription(topic="t", subscription="s")],
                **id_of,
            ),
            BaseCommand.END_TXN: pb.CommandEndTxn(request_id=5, txn_action=pb.COMMIT, **id_of),
        }
        assert set(asked) == {k for k, rule in RULES.items() if rule.reason == OF_OWNER}
        for client, code in ((theirs, pb.AuthorizationError), (mine, None)):
            for command in asked.values():
                await client.send(command)
                reply, _ = await client.reply()
                assert (reply.error if reply.HasField("error") else None) == code
        second = await begin(mine)
        await theirs.producer("t")
        (refused,) = await send(theirs, second, b"|not mine")
        assert refused.error == pb.NotAllowedError


async def test_a_super_user_ends_anybodys_transaction(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    async with guarded(open_broker, tmp_path) as broker:
        await broker.grant(NAMESPACE, "me", "produce")
        mine, above = await broker.connect("me"), await broker.connect("root")
        relayed = await broker.connect("relay", original_principal="root")
        await mine.producer("t")
        for client, code in ((relayed, pb.AuthorizationError), (above, None)):
            transaction = await begin(mine)
            id_of = named(transaction)
            join = pb.CommandAddPartitionToTxn(request_id=4, partitions=["t"], **id_of)
            end = pb.CommandEndTxn(request_id=5, txn_action=pb.COMMIT, **id_of)
            for command in (join, end):
                await client.send(command)
                reply, _ = await client.reply()
                assert (reply.error if reply.HasField("error") else None) == code


async def test_a_client_without_rights_finds_the_coordinator(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    async with guarded(open_broker, tmp_path) as broker:
        client = await broker.connect("me")
        await client.send(pb.CommandPartitionedTopicMetadata(topic=COORDINATORS, request_id=1))
        assert (await client.expect(pb.CommandPartitionedTopicMetadataResponse)).partitions == 1
        lookup = pb.CommandLookupTopic(topic=f"{COORDINATORS}-partition-0", request_id=2)
        await client.send(lookup)
        found = await client.expect(pb.CommandLookupTopicResponse)
        assert found.response == pb.CommandLookupTopicResponse.Connect


async def test_a_watcher_of_topics_that_loses_the_right_is_cut_off(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    async with guarded(open_broker, tmp_path) as broker:
        await broker.grant(NAMESPACE, "me", "consume")
        client = await broker.connect("me")
        await client.send(CASES[BaseCommand.WATCH_TOPIC_LIST].command)
        await client.expect(pb.CommandWatchTopicListSuccess)
        await broker.grant(NAMESPACE, "me", "functions")
        with pytest.raises((Closed, trio.BrokenResourceError)):
            await client.reply()


async def test_a_right_that_goes_while_a_producer_waits_for_its_turn_is_gone_when_it_comes(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    async with guarded(open_broker, tmp_path) as broker:
        exclusive = pb.Exclusive
        await broker.grant(NAMESPACE, "me", "produce")
        first, second = await broker.connect("root"), await broker.connect("me")
        assert isinstance(
            await first.producer("mine", producer_access_mode=exclusive), pb.CommandProducerSuccess
        )
        waiting = await second.producer("mine", producer_access_mode=pb.WaitForExclusive)
        assert not waiting.producer_ready
        await broker.grant(NAMESPACE, "me")
        assert isinstance((await second.reply())[0], pb.CommandError)
        await first.send(pb.CommandCloseProducer(producer_id=1, request_id=8))
        assert await second.silent()


@pytest.mark.parametrize(
    ("fields", "role", "text"),
    [
        ({"original_principal": "me"}, "me", "Invalid roles."),
        ({"original_principal": "ann"}, "me", "Invalid roles."),
        ({}, "relay", "Invalid roles."),
        ({"original_principal": "relay"}, "relay", "Invalid roles."),
        ({"proxy_version": "1"}, "me",
         "Must not set proxyVersion without connecting as a ProxyRole."),
    ],
)  # fmt: skip
async def test_only_proxies_act_for_other_roles(
    open_broker: OpenBroker, tmp_path: Path, fields: dict[str, Any], role: str, text: str
) -> None:
    async with guarded(open_broker, tmp_path) as broker:
        client = await broker.stranger()
        await client.send(connect(role, **fields))
        refused = await client.expect(pb.CommandError)
        assert (refused.error, refused.message) == (pb.AuthorizationError, text)
        with pytest.raises(Closed):
            await client.reply()


async def test_of_a_proxy_and_whom_it_comes_for_both_need_the_right(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    async with guarded(open_broker, tmp_path) as broker:
        through = partial(broker.connect, "relay", proxy_version="1")
        await broker.grant(NAMESPACE, "me", "produce")
        client = await through(original_principal="me")
        assert (await client.producer("t")).error == pb.AuthorizationError
        await broker.grant(NAMESPACE, "relay", "produce")
        assert isinstance(await client.producer("t"), pb.CommandProducerSuccess)
        other = await through(original_principal="ann")
        assert (await other.producer("t")).error == pb.AuthorizationError
        await broker.grant(NAMESPACE, "me")
        await client.expect(pb.CommandCloseProducer)


async def test_a_proof_is_renewed_by_whom_it_was_given(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    async with guarded(open_broker, tmp_path) as broker:
        client = await broker.stranger()
        ends = broker.context.clock.wall_ms() // 1000 + 3  # to log in on a busy machine, too
        mine = jwt.encode({"sub": "me", "exp": ends}, SECRET, "HS256").encode()
        flags = pb.FeatureFlags(supports_auth_refresh=True)
        first = pb.CommandConnect(
            client_version="test", protocol_version=20, auth_method_name="token", auth_data=mine,
            feature_flags=flags,
        )  # fmt: skip
        await client.send(first)
        await client.expect(pb.CommandConnected)
        await client.expect(pb.CommandAuthChallenge)
        answer = pb.AuthData(auth_method_name="token", auth_data=token("root"))
        await client.send(pb.CommandAuthResponse(response=answer, client_version="test"))
        assert "somebody else" in (await client.expect(pb.CommandError)).message
        with pytest.raises(Closed):
            await client.reply()


async def test_a_client_without_credentials_is_anonymous_if_there_is_such_a_role(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    for anonymous in ("", "anon"):
        async with guarded(open_broker, tmp_path, anonymous_role=anonymous) as broker:
            await broker.grant(NAMESPACE, "anon", "produce")
            client = await broker.stranger()
            await client.send(pb.CommandConnect(client_version="test", protocol_version=20))
            if not anonymous:
                assert (await client.expect(pb.CommandError)).error == pb.AuthenticationError
                continue
            await client.expect(pb.CommandConnected)
            assert isinstance(await client.producer("t"), pb.CommandProducerSuccess)
            assert (await client.subscribe("t")).error == pb.AuthorizationError
            forger = await broker.stranger()
            await forger.send(
                pb.CommandConnect(client_version="x", auth_method_name="token", auth_data=b"x")
            )
            assert (await forger.expect(pb.CommandError)).error == pb.AuthenticationError
