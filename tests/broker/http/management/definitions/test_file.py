"""A definitions file: what is understood of it, whichever version wrote it."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.broker.http.management.kit import managed

from arneb.http.management.definitions.file import Definitions, definitions_in
from arneb_core.access.passwords import HashingAlgorithm, PasswordHash

USER = {"name": "u", "password_hash": "AQIDBAAAAAAAAAAAAAAAAAAAAAA=", "tags": ""}
SHOVEL = {
    "src-uri": "amqp://", "src-queue": "from", "dest-uri": "amqp://", "dest-queue": "to",
}  # fmt: skip


def read(**document: Any) -> Definitions:
    return definitions_in(json.dumps(document).encode(), None)


@pytest.mark.parametrize(
    ("version", "algorithm"),
    [
        ("3.5.7", HashingAlgorithm.MD5),
        ("3.0.0", HashingAlgorithm.MD5),
        ("3.6.0", HashingAlgorithm.SHA256),
        ("3.13.7", HashingAlgorithm.SHA256),
        (None, HashingAlgorithm.SHA256),
    ],
)
def test_a_hash_without_its_algorithm_has_that_of_the_version(
    version: str | None, algorithm: HashingAlgorithm
) -> None:
    [(_, password, _, _)] = read(rabbit_version=version, users=[USER]).users
    assert isinstance(password, PasswordHash)
    assert password.algorithm is algorithm


def test_a_hash_with_its_algorithm_has_that_one_whatever_the_version() -> None:
    named = {**USER, "hashing_algorithm": HashingAlgorithm.SHA512.value}
    [(_, password, _, _)] = read(rabbit_version="3.5.7", users=[named]).users
    assert isinstance(password, PasswordHash)
    assert password.algorithm is HashingAlgorithm.SHA512


def test_each_ignored_field_is_listed_once() -> None:
    rows = [{"name": f"v{number}", "colour": "blue"} for number in range(3)]
    read_file = read(vhosts=rows, feature_flags=[], product_name="RabbitMQ")
    assert sorted(read_file.ignored) == ["feature_flags", "the field colour of vhosts"]


async def test_a_shovel_finds_its_queues_as_the_file_declares_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If the shovel came first, it would declare them durable."""
    document = {
        "parameters": [{"vhost": "/", "component": "shovel", "name": "s", "value": SHOVEL}],
        "queues": [
            {"name": name, "vhost": "/", "durable": False, "auto_delete": False, "arguments": {}}
            for name in ("from", "to")
        ],
        "strange": 1,
    }
    with caplog.at_level(logging.WARNING):
        async with managed(tmp_path) as call:
            await call.does("POST", "definitions", document)
            assert [each["name"] for each in await call.does("GET", "parameters/shovel")] == ["s"]
            for each in await call.does("GET", "queues"):
                assert not each["durable"], each
    assert "strange means nothing here" in caplog.text


async def test_a_user_who_imports_a_new_vhost_gets_access_to_it(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        document = {"vhosts": [{"name": "new"}, {"name": "v/m"}]}
        await call.does("DELETE", "permissions/v%2Fm/admin")
        await call.does("POST", "definitions", document)
        found = await call.does("GET", "users/admin/permissions")
        assert {each["vhost"] for each in found} == {"/", "new"}


async def test_an_invalid_shovel_stops_the_whole_import(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        bad = {"vhost": "/", "component": "shovel", "name": "s", "value": {"src-uri": "amqp://"}}
        document = {"vhosts": [{"name": "new"}], "parameters": [bad]}
        assert (await call("POST", "definitions", document)).status == 400
        assert (await call("GET", "vhosts/new")).status == 404


async def test_queues_and_exchanges_named_by_a_broker_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The queue is one that a client had named by the broker that exported it."""
    own, mine, there = ({"vhost": "/", "name": name} for name in ("amq.gen-x", "amq.mine", "q"))
    bound = {"vhost": "/", "source": "amq.fanout", "destination_type": "queue", "routing_key": ""}
    document = {
        "queues": [own, there],
        "exchanges": [{**mine, "type": "fanout"}, {"vhost": "/", "name": "amq.fanout"}],
        "bindings": [{**bound, "destination": each["name"]} for each in (own, there)],
    }
    async with managed(tmp_path) as call:
        await call.does("POST", "definitions", document)
        assert [each["name"] for each in await call.does("GET", "queues/%2F")] == ["q"]
        assert (await call("GET", "exchanges/%2F/amq.mine")).status == 404
        bindings = await call.does("GET", "exchanges/%2F/amq.fanout/bindings/source")
        assert [each["destination"] for each in bindings] == ["q"]
    assert "each of the queues whose name begins with 'amq.'" in caplog.text
    assert "each of the exchanges whose name begins with 'amq.'" in caplog.text
