"""What happens to a message whose consumer lacks the key: each action, in both directions.

| action | unencrypted messages behind it | the message itself |
|---|---|---|
| CONSUME | are delivered | is delivered encrypted |
| DISCARD | are delivered | is acknowledged |
| FAIL | are delivered | stays, for a consumer with the key |
"""

from pathlib import Path

import pytest
from conformance.pulsar.interoperation.conftest import WAYS, Libraries, made_keys
from conformance.pulsar.interoperation.libraries import (
    Keys,
    Outgoing,
    Receiving,
    Sending,
    take,
)

SILENCE_S = 0.5


@pytest.mark.parametrize("packing", ["single", "batch"])
@pytest.mark.parametrize("action", ["CONSUME", "DISCARD", "FAIL"])
@pytest.mark.parametrize(("sender", "receiver"), WAYS)
def test_without_the_key(
    libraries: Libraries,
    topic: str,
    keys: Keys,
    sender: str,
    receiver: str,
    action: str,
    packing: str,
) -> None:
    consumer = libraries[receiver].receiver(topic, Receiving(on_crypto_failure=action))
    secret = libraries[sender].sender(topic, Sending(packing=packing, keys=keys))
    secret.send([Outgoing(b"one"), Outgoing(b"two")])
    libraries[sender].sender(topic, Sending()).send([Outgoing(b"clear")])
    if action == "CONSUME":
        raw = take(consumer, 2 if packing == "single" else 1)
        assert all(b"one" not in each.value and b"two" not in each.value for each in raw)
    assert take(consumer, 1)[0].value == b"clear"
    assert consumer.receive(SILENCE_S) is None
    consumer.close()
    knowing = libraries["ours"].receiver(topic, Receiving(keys=keys))
    if action == "FAIL":
        assert [each.value for each in take(knowing, 2)] == [b"one", b"two"]
    assert knowing.receive(SILENCE_S) is None


def test_each_of_several_keys_opens_a_message(
    libraries: Libraries, topic: str, tmp_path: Path
) -> None:
    """Between Java and ours; the wheel encrypts with only one key."""
    keys = made_keys(tmp_path, "one", "two")
    for sender in ("ours", "java"):
        secrets = f"{topic}-{sender}"
        consumers = [
            libraries[receiver].receiver(
                secrets,
                Receiving(
                    f"{receiver}-{name}-{sender}",
                    keys=Keys({name: keys.public[name]}, {name: keys.private[name]}),
                ),
            )
            for receiver in ("ours", "java")
            for name in ("one", "two")
        ]
        libraries[sender].sender(secrets, Sending(keys=keys)).send([Outgoing(b"secret")])
        for each in consumers:
            assert take(each, 1)[0].value == b"secret"
