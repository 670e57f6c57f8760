"""Topics, partitions and policies by random calls, held against dictionaries, with restarts."""

import json
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pulsar_frontend.admin_client import PERSISTENT

from arneb_core.engine.engine import open_engine
from arneb_pulsar.admin.api import answer
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.services.context import BrokerContext, make_context

NAMES = ("a", "b")
PREFIX = "persistent://public/default/"

names = st.sampled_from(NAMES)
counts = st.integers(1, 3)
calls = st.one_of(
    st.tuples(st.just("make"), names, st.just(0)),
    st.tuples(st.just("part"), names, counts),
    st.tuples(st.just("grow"), names, counts),
    st.tuples(st.just("drop"), names, st.just(0)),
    st.tuples(st.just("drop parted"), names, st.just(0)),
    st.tuples(st.just("subscribe"), names, st.just(0)),
    st.tuples(st.just("ttl"), names, st.integers(0, 9)),
    st.tuples(st.just("no ttl"), names, st.just(0)),
    st.tuples(st.just("terminate"), names, st.just(0)),
    st.tuples(st.just("restart"), names, st.just(0)),
)


@dataclass
class Model:
    """What there should be: partitions (0 = a plain topic), subscriptions, times to live."""

    partitions: dict[str, int] = field(default_factory=dict)
    subscribed: set[str] = field(default_factory=set)
    ttl: dict[str, int] = field(default_factory=dict)

    def play(self, call: str, name: str, number: int) -> int:
        """The status that the call gets."""
        there = self.partitions.get(name)
        if call == "make" or call == "part":
            if there is not None:
                return 409
            self.partitions[name] = number
            return 204
        if call == "grow":
            if not there:
                return 409
            if number < there:
                return 422
            self.partitions[name] = number
            return 204
        if call == "drop" or call == "drop parted":
            wanted = there == 0 if call == "drop" else bool(there)
            if there is None or not wanted:
                return 404 if there is None else 409
            self._forget(name)
            return 204
        return self._use(call, name, number)

    def _use(self, call: str, name: str, number: int) -> int:
        there = self.partitions.get(name)
        if call == "subscribe":
            if there is not None and name in self.subscribed:
                return 409
            self.partitions.setdefault(name, 0)  # it comes to be by being used
            self.subscribed.add(name)
            return 204
        if there is None:
            return 404
        if call == "ttl":
            self.ttl[name] = number
        elif call == "no ttl":
            self.ttl.pop(name, None)
        elif call == "terminate":
            return 405 if there else 200
        return 204

    def _forget(self, name: str) -> None:
        del self.partitions[name]
        self.subscribed.discard(name)
        self.ttl.pop(name, None)

    @property
    def topics(self) -> list[str]:
        found: list[str] = []
        for name, count in self.partitions.items():
            found += [f"{PREFIX}{name}-partition-{index}" for index in range(count)]
            found += [] if count else [PREFIX + name]
        return sorted(found)


REQUESTS: dict[str, tuple[str, str]] = {
    "make": ("PUT", ""),
    "part": ("PUT", "/partitions"),
    "grow": ("POST", "/partitions"),
    "drop": ("DELETE", ""),
    "drop parted": ("DELETE", "/partitions"),
    "subscribe": ("PUT", "/subscription/s"),
    "ttl": ("POST", "/messageTTL"),
    "no ttl": ("DELETE", "/messageTTL"),
    "terminate": ("POST", "/terminate"),
}


async def ask(context: BrokerContext, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    data = b"" if body is None else json.dumps(body).encode()
    reply = await answer(context, method, PERSISTENT + path, {}, data, "here")
    return reply.status, json.loads(reply.body) if reply.body else None


async def compare(context: BrokerContext, model: Model) -> None:
    """Everything that can be asked for is as in the model."""
    assert (await ask(context, "GET", ""))[1] == model.topics
    parted = sorted(PREFIX + name for name, count in model.partitions.items() if count)
    assert (await ask(context, "GET", "/partitioned"))[1] == parted
    for name in NAMES:
        status, found = await ask(context, "GET", f"/{name}/partitions")
        there = model.partitions.get(name)
        assert status == (404 if there is None else 200)
        if there is None:
            continue
        assert found["partitions"] == there
        assert (await ask(context, "GET", f"/{name}/messageTTL"))[1] == model.ttl.get(name)
        for each in [topic for topic in model.topics if topic.startswith(PREFIX + name)]:
            subscriptions = context.core.topics[each].subscriptions
            assert list(subscriptions) == (["s"] if name in model.subscribed else [])


@given(st.lists(calls, min_size=5, max_size=25))
@settings(max_examples=20)
def test_random_calls(
    tmp_path_factory: pytest.TempPathFactory, program: list[tuple[str, str, int]]
) -> None:
    path = tmp_path_factory.mktemp("places")
    trio.run(play, path, program)


async def play(path: Path, program: list[tuple[str, str, int]]) -> None:
    """Play one program."""
    model = Model()
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(AsyncExitStack())

        async def start() -> BrokerContext:
            core = await running.enter_async_context(open_engine(path))
            return make_context(core, PulsarConfig())

        context = await start()
        for call, name, number in program:
            if call == "restart":
                await running.aclose()
                context = await start()
            else:
                method, end = REQUESTS[call]
                body = number if call in ("part", "grow", "ttl") else None
                status, _ = await ask(context, method, f"/{name}{end}", body)
                assert status == model.play(call, name, number), (call, name, number)
            await compare(context, model)
