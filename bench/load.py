"""The load generator: compiled when needed, run to its end, its output returned as figures."""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.brokers.process import Address

SOURCE: Final = Path(__file__).parent
FLAGS: Final = ("-O2", "-std=gnu11", "-Wall", "-Wextra")

Figures = dict[str, float]


class LoadFailed(Exception):
    """The load generator failed; the message is its own last line."""


@dataclass(frozen=True, slots=True)
class LoadGenerator:
    """The compiled programs."""

    load: Path
    sink: Path

    def run(self, address: Address, mode: str, /, **options: float | str | bool) -> Figures:
        """Run it once against the broker at ``address``; the result is the figures that it prints.

        The options are those of ``amqp_load.c``, with ``_`` for ``-``. Raises :class:`LoadFailed`,
        also if a message was refused, returned or delivered out of order.
        """
        command = self._command(address, mode, options)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LoadFailed(f"{mode} {options}: {done.stderr.strip() or done.returncode}")
        return _figures(f"{mode} {options}", done.stdout)

    @contextmanager
    def running(
        self, address: Address, mode: str, /, *, waits: bool = True, **options: float | str | bool
    ) -> Iterator["Running"]:
        """Run it in the background during the block, which begins when all connections are open (or
        immediately, unless it ``waits``)."""
        process = subprocess.Popen(
            self._command(address, mode, options),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running = Running(process, f"{mode} {options}")
        try:
            if waits:
                running.wait_ready()
            yield running
        finally:
            running.stop()

    def _command(
        self, address: Address, mode: str, options: Mapping[str, float | str | bool]
    ) -> list[str]:
        command = [str(self.load), mode, "--host", address.host, "--port", str(address.port)]
        for name, value in options.items():
            flag = f"--{name.replace('_', '-')}"
            if value is not False:
                command += [flag] if value is True else [flag, str(value)]
        return command


class Running:
    """A run in the background."""

    def __init__(self, process: "subprocess.Popen[str]", what: str) -> None:
        self._process = process
        self._what = what

    def wait_ready(self) -> None:
        """Wait for the first line, which says that everything is open."""
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            self.finish()

    def finish(self) -> str:
        """Wait for its end; the result is its output. Raises :class:`LoadFailed`."""
        printed, said = self._process.communicate()
        if self._process.returncode:
            raise LoadFailed(f"{self._what}: {said.strip() or self._process.returncode}")
        return printed

    def figures(self) -> Figures:
        """Wait for its end; the result is as for :meth:`LoadGenerator.run`. Raises
        :class:`LoadFailed`."""
        return _figures(self._what, self.finish())

    def stop(self) -> None:
        """End it, if it has not ended."""
        self._process.terminate()
        self._process.communicate()


def _figures(what: str, printed: str) -> Figures:
    """Parse the output of a run. Raises :class:`LoadFailed`."""
    figures: dict[str, float | str] = json.loads(printed)
    numbers = {name: value for name, value in figures.items() if isinstance(value, int | float)}
    for fault in ("nacked", "returned", "disorder"):
        if numbers.get(fault):
            raise LoadFailed(f"{what}: expected no {fault} message, got {figures}")
    return numbers


def compile_generator(directory: Path, *, tls: bool = False) -> LoadGenerator:
    """Compile both programs into ``directory``. With ``tls`` the generator supports TLS, for which
    OpenSSL's headers must be installed. Raises :class:`LoadFailed`."""
    with_tls = ("-DWITH_TLS", "-lssl", "-lcrypto") if tls else ()
    generator = compile_program("amqp_load", directory, *with_tls)
    return LoadGenerator(generator, compile_program("amqp_sink", directory))


def compile_program(name: str, directory: Path, *options: str) -> Path:
    """Compile a program beside this module into ``directory``. Raises :class:`LoadFailed`."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise LoadFailed("expected a C compiler (cc or gcc) on the PATH")
    directory.mkdir(parents=True, exist_ok=True)
    source, program = SOURCE / f"{name}.c", directory / name
    command = [compiler, *FLAGS, "-o", str(program), str(source), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LoadFailed(f"compiling {source}:\n{done.stderr}")
    return program
