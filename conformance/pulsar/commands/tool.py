"""Apache Pulsar's ``pulsar-admin``, which runs many commands in one process here."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.brokers.java_server import classpath
from conformance.toolbox import own_environment, tool

HERE: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Said:
    """The outcome of one command."""

    ok: bool
    out: str
    err: str
    status: int = 0
    """The status of the last HTTP answer; 0 if no request was made."""


class PulsarAdmin:
    """The tool, connected to one broker."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def __repr__(self) -> str:
        return f"<PulsarAdmin, process {self._process.pid}>"

    def names(self) -> list[str]:
        """The existing commands."""
        return self([]).out.split("\n")[:-1]

    def __call__(self, arguments: Sequence[str]) -> Said:
        """Run one command to its end."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        asked.write(json.dumps(list(arguments)) + "\n")
        asked.flush()
        line = answers.readline()
        assert line, f"the tool ended with {self._process.wait()}"
        return Said(**json.loads(line))


@contextmanager
def pulsar_admin(url: str) -> Iterator[PulsarAdmin]:
    """Run the tool for the broker whose admin API is at ``url``."""
    java = tool("java", "default-jdk-headless")
    program = str(HERE / "Commands.java")
    command = [java, "-Xmx384m", "-cp", classpath(HERE / "pom.xml"), program, url]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=own_environment(),
    ) as process:
        yield PulsarAdmin(process)
        assert process.stdin is not None
        process.stdin.close()
