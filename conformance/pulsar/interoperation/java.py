"""The official Java client, in a separate process that obeys commands in JSON."""

import json
import shutil
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from conformance.pulsar.interoperation.libraries import (
    WITHIN_S,
    Incoming,
    Outgoing,
    Receiver,
    Receiving,
    Refused,
    Sender,
    Sending,
)
from conformance.toolbox import BUILD_WITHIN_S, finished, made_once, own_environment, tool

SOURCES: Final = Path(__file__).parent / "java"


@contextmanager
def java(url: str) -> Iterator["Java"]:
    """A client in a new process."""
    with subprocess.Popen(
        [*program(), url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=own_environment(),
    ) as process:
        yield Java(process)
        assert process.stdin is not None
        process.stdin.close()


def program() -> list[str]:
    """The command that starts it; it is built once."""
    started, maven = tool("java", "default-jdk-headless"), tool("mvn", "maven")
    files = [SOURCES / "pom.xml", *SOURCES.glob("src/**/*.java")]

    def make(place: Path) -> None:
        left_out = shutil.ignore_patterns("target")
        shutil.copytree(SOURCES, place, ignore=left_out, dirs_exist_ok=True)
        finished([maven, "--quiet", "--batch-mode", "package"], place, BUILD_WITHIN_S)

    target = made_once("pulsar-java-library", files, make) / "target"
    return [started, "-cp", f"{target}/classes:{target}/dependency/*", "Library"]


class Java:
    """See ``Library``."""

    name = "java"

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def __repr__(self) -> str:
        return f"<Java, process {self._process.pid}>"

    def call(self, what: str, **arguments: Any) -> Any:
        """Make one call and return its answer. Raises :class:`Refused`."""
        calls, answers = self._process.stdin, self._process.stdout
        assert calls is not None
        assert answers is not None
        calls.write(json.dumps({"do": what, **arguments}) + "\n")
        calls.flush()
        line = answers.readline()
        assert line, f"the process ended: {self._process.wait(WITHIN_S)}"
        answer = json.loads(line)
        if "refused" in answer:
            raise Refused(answer["refused"])
        return answer["answer"]

    def sender(self, topic: str, how: Sending) -> Sender:
        """See ``Library``."""
        return JavaSender(self, self.call("sender", topic=topic, **asdict(how)))

    def receiver(self, topic: str, how: Receiving) -> Receiver:
        """See ``Library``."""
        made = self.call("receiver", topic=topic, **asdict(how))
        return JavaReceiver(self, made, how.schema)


class JavaSender:
    """See ``Sender``."""

    def __init__(self, library: Java, handle: int) -> None:
        self._library = library
        self._handle = handle

    def __repr__(self) -> str:
        return f"<JavaSender {self._handle} of {self._library!r}>"

    def send(self, messages: Sequence[Outgoing]) -> list[bytes]:
        """See ``Sender``."""
        documents = [_document_of(each) for each in messages]
        ids = self._library.call("send", handle=self._handle, messages=documents)
        return [b64decode(each) for each in ids]

    def close(self) -> None:
        """See ``Sender``."""
        self._library.call("close", handle=self._handle)


class JavaReceiver:
    """See ``Receiver``."""

    def __init__(self, library: Java, handle: int, schema: str) -> None:
        self._library = library
        self._handle = handle
        self._schema = schema

    def __repr__(self) -> str:
        return f"<JavaReceiver {self._handle} of {self._library!r}>"

    def receive(self, within_s: float = WITHIN_S) -> Incoming | None:
        """See ``Receiver``."""
        found = self._library.call("receive", handle=self._handle, within_s=within_s)
        if found is None:
            return None
        value = found["value"]
        if self._schema == "bytes" and value is not None:
            value = b64decode(value)
        key = b64decode(found["key_bytes"]) if "key_bytes" in found else found["key"]
        return Incoming(
            value,
            found["is_null"],
            key,
            found["ordering_key"],
            found["properties"],
            found["event_time_ms"],
            found["redelivery_count"],
            b64decode(found["id"]),
        )

    def acknowledge(self, which: Incoming, *, cumulative: bool = False) -> None:
        """See ``Receiver``."""
        self._call_for("acknowledge", which, cumulative=cumulative)

    def negative_acknowledge(self, which: Incoming) -> None:
        """See ``Receiver``."""
        self._call_for("negative acknowledge", which)

    def seek(self, where: bytes) -> None:
        """See ``Receiver``."""
        self._library.call("seek", handle=self._handle, id=b64encode(where).decode())

    def close(self) -> None:
        """See ``Receiver``."""
        self._library.call("close", handle=self._handle)

    def _call_for(self, what: str, which: Incoming, **arguments: Any) -> None:
        message_id = b64encode(which.id).decode()
        self._library.call(what, handle=self._handle, id=message_id, **arguments)


def _document_of(message: Outgoing) -> dict[str, Any]:
    document = asdict(message)
    if isinstance(message.value, bytes):
        document["value"] = b64encode(message.value).decode()
    if isinstance(message.key, bytes):
        document["key_bytes"] = b64encode(message.key).decode()
        document["key"] = None
    return document
