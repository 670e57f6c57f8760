"""A process that writes a log while others read it, told what to do line by line.

Each line of its input is a command, answered by one line when it is done:

* ``append TOPICS COUNT``: that many entries to each of the topics, in one commit
* ``create TOPIC``: a topic that was not there
* ``roll TOPICS``: close the open ledgers
* ``trim TOPIC LEDGER``: remove a ledger
* ``stream TOPICS KEEP``: go on appending commits of :data:`COMMIT_ENTRIES` entries and rolling,
  keeping the last KEEP ledgers (0 = all), until the next command comes

The bodies count up from 0 in each topic, and a ledger that ``stream`` rolls has
:data:`LEDGER_ENTRIES` entries, so every body follows from its position.
"""

import os
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from log_generator import LogWriter, amqp_entry

COMMIT_ENTRIES: Final = 20
LEDGER_ENTRIES: Final = 200
PACE_S: Final = 0.01
"""Between two commits of a stream, so that the log stays small enough to be read often."""


class WriterProcess:
    """The process, as seen by a test."""

    def __init__(self, log: Path, topics: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(log), *topics],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self._answer()

    def tell(self, *words: object) -> str:
        """Give a command and wait until it is done; ``stream`` is when it has begun."""
        assert self._process.stdin is not None
        print(*words, file=self._process.stdin)
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        assert answer, "the writer process died"
        return answer.strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.communicate(timeout=20)


class Writer:
    """The work of the process."""

    def __init__(self, log: Path, topics: Sequence[str]) -> None:
        self._writer = LogWriter(log)
        self._counts = dict.fromkeys(topics, 0)
        self._ledgers = dict.fromkeys(topics, 1)
        for topic in topics:
            self._writer.create(topic)

    def _create(self, topic: str) -> None:
        self._writer.create(topic)
        self._counts[topic], self._ledgers[topic] = 0, 1

    def run(self) -> None:
        """Obey until the input ends."""
        print("ready", flush=True)
        while line := _read_line():
            command, topics, *rest = line.split()
            number = int(rest[0]) if rest else 0
            match command:
                case "append":
                    self._append(topics.split(","), number)
                case "create":
                    self._create(topics)
                case "roll":
                    self._roll(topics.split(","))
                case "trim":
                    self._writer.trim(topics, number)
                case "stream":
                    print("streaming", flush=True)
                    self._stream(topics.split(","), number)
                    continue
            print("done", *self._counts.values(), flush=True)
        self._writer.close()

    def _append(self, topics: Sequence[str], count: int) -> None:
        self._writer.append_all(
            {
                topic: [amqp_entry(b"%d" % (self._counts[topic] + n)) for n in range(count)]
                for topic in topics
            }
        )
        for topic in topics:
            self._counts[topic] += count

    def _roll(self, topics: Sequence[str]) -> None:
        for topic in topics:
            self._writer.roll(topic)
            self._ledgers[topic] += 1

    def _stream(self, topics: Sequence[str], keep: int) -> None:
        while not select.select([0], [], [], PACE_S)[0]:
            self._append(topics, COMMIT_ENTRIES)
            if self._counts[topics[0]] % LEDGER_ENTRIES == 0:
                self._roll(topics)
                for topic in topics:
                    oldest = self._ledgers[topic] - keep
                    if keep and oldest > 0:
                        self._writer.trim(topic, oldest)


def _read_line() -> str:
    """A line without reading ahead, so that ``select`` sees what is left."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return ""
        line += byte
    return line.decode()


if __name__ == "__main__":
    Writer(Path(sys.argv[1]), sys.argv[2:]).run()
