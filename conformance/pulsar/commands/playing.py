"""Runs the script on one broker, and compares the answers of two."""

import json
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pulsar
from conformance.pulsar.commands.comparison import Line, compared
from conformance.pulsar.commands.recording import recorded
from conformance.pulsar.commands.script import script
from conformance.pulsar.commands.tool import Said, pulsar_admin

SETTINGS: Final = {
    "transactionCoordinatorEnabled": "true",
    "systemTopicEnabled": "true",
    "forceDeleteNamespaceAllowed": "true",
    "delayedDeliveryTickTimeMillis": 1000,
}
"""Settings that make Apache Pulsar do what Arneb does by default."""

SETTLES_S: Final = 0.25
"""How many seconds Apache Pulsar takes until a topic's policy has the value that was set."""

TAKES_EFFECT_LATER: Final = ("set-", "remove-", "expire-messages")
"""Commands that Apache Pulsar answers before they have taken effect. A second expiry before the
first is finished would be a conflict."""

MESSAGES: Final = 6

Played = Sequence[tuple[str, Said]]


def play(admin_url: str, pulsar_url: str, place: Path, settles_s: float = 0.0) -> Played:
    """Run every line of the script; the result is each line with its outcome. Files that the script
    names are made in ``place``; ``settles_s`` is the time to wait after setting a policy."""
    names = _files(place) | {"ledger": "0"}
    played: list[tuple[str, Said]] = []
    with recorded(admin_url) as recorder, pulsar_admin(recorder.url) as admin:
        names["broker"] = json.loads(admin(["brokers", "leader-broker"]).out)["brokerId"]
        for line in script():
            command = line.format_map(names)
            words = shlex.split(command)
            if words[0] == "produce":
                names["ledger"] = _produce(pulsar_url, words[1])
                continue
            if words[0] in ("transact", "end-transactions"):
                outcome = admin([words[0], pulsar_url, *words[1:]])
                assert outcome.ok, outcome.err
                names |= dict(zip(("most", "least"), outcome.out.split(), strict=False))
                recorder.taken()
                continue
            outcome = admin(words)
            statuses = recorder.taken()
            played.append((line, replace(outcome, status=statuses[-1] if statuses else 0)))
            if words[0] in ("topics", "topicPolicies") and words[1].startswith(TAKES_EFFECT_LATER):
                time.sleep(settles_s)
    return played


def table(pulsar_said: Played, arneb_said: Played) -> list[Line]:
    """Compare the outcomes on both brokers, line by line."""
    return [
        compared(command, one, other)
        for (command, one), (_, other) in zip(pulsar_said, arneb_said, strict=True)
    ]


def _files(place: Path) -> dict[str, str]:
    contents: Mapping[str, bytes] = {
        "schema": json.dumps({"type": "STRING", "schema": "", "properties": {}}).encode(),
        "jar": b"PK\x05\x06" + bytes(18),
    }
    names = {name: place / f"{name}.{'json' if name == 'schema' else name}" for name in contents}
    for name, path in names.items():
        path.write_bytes(contents[name])
    return {name: str(path) for name, path in names.items()} | {"there": str(place / "there")}


def _produce(url: str, topic: str) -> str:
    """Send some messages; the result is the ledger of the last."""
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(url, operation_timeout_seconds=30, logger=quiet)
    try:
        producer = client.create_producer(topic, batching_enabled=False)
        ids = [producer.send(b"message %d" % each) for each in range(MESSAGES)]
        return str(ids[-1].ledger_id())
    finally:
        client.close()
