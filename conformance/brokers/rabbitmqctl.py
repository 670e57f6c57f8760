"""RabbitMQ's own ``rabbitmqctl``: many commands in one Erlang VM.

The rule: what runs is Debian's program, extracted from its archive. Starting a VM for each command
would take two CPU seconds each.
"""

import subprocess
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.brokers.rabbitmq import RabbitMQ

HOME: Final = Path("/usr/lib/rabbitmq/lib/rabbitmq_server-3.10.8")
PROGRAM: Final = HOME / "escript" / "rabbitmqctl"

BEGIN: Final = "\x01BEGIN\n"
END: Final = "\x01END "

MODULE: Final = r"""-module(batch).
-export([main/1]).
main(File) ->
    {ok, Lists} = file:consult(File),
    {ok, _} = application:ensure_all_started(elixir),
    application:load(rabbitmqctl),
    lists:foreach(fun run/1, Lists).
run(Args) ->
    both("\x{1}BEGIN\n"),
    Words = [unicode:characters_to_binary(A) || A <- Args],
    {P, M} = spawn_monitor(fun() -> exit({got, catch 'Elixir.RabbitMQCtl':main(Words)}) end),
    Code = receive
        {'DOWN', M, process, P, {got, {'EXIT', {shutdown, C}}}} -> C;
        {'DOWN', M, process, P, _} -> -1
    end,
    both(io_lib:format("\x{1}END ~p\n", [Code])).
both(Text) ->
    io:put_chars(standard_io, Text), io:put_chars(standard_error, Text).
"""


@dataclass(frozen=True, slots=True)
class Said:
    """The exit code and output of a command."""

    code: int
    out: str
    errors: str


class Batch:
    """Runs command lines against one node."""

    def __init__(self, directory: Path, broker: RabbitMQ) -> None:
        self._directory = directory
        self._environment = broker.environment
        directory.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(PROGRAM) as archive:
            archive.extractall(directory / "program")
        (directory / "batch.erl").write_text(MODULE)
        subprocess.run(["erlc", "batch.erl"], cwd=directory, check=True, timeout=60)

    def __repr__(self) -> str:
        return f"<Batch in {self._directory}>"

    def run(self, lines: Sequence[Sequence[str]]) -> list[Said]:
        """Run the commands one after the other; the result is what each returned and printed."""
        terms = (f"[{','.join(map(_quoted, line))}].\n" for line in lines)
        file = self._directory / "lines"
        file.write_text("%% -*- coding: utf-8 -*-\n" + "".join(terms), encoding="utf-8")
        paths = [self._directory, self._directory / "program", *HOME.glob("plugins/*/ebin")]
        done = subprocess.run(
            [
                "erl", "-noshell", "-hidden", "-boot", "start_clean", "+B", "-pa",
                *map(str, paths), "-eval", f'batch:main("{file}"), halt(0).', "-extra",
                str(PROGRAM),
            ],
            env=self._environment, capture_output=True, text=True, timeout=600, check=True,
        )  # fmt: skip
        outs, errors = (each.split(BEGIN)[1:] for each in (done.stdout, done.stderr))
        assert len(outs) == len(errors) == len(lines), done.stderr[-2000:]
        found = []
        for out, error in zip(outs, errors, strict=True):
            output, _, code = out.rpartition(END)
            found.append(Said(int(code), output, error.rpartition(END)[0]))
        return found


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
