"""Lines of standard input: as they come, wherever they are cut, and cancelled while none comes."""

import os
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.client.command_line import input as lines
from arneb_pulsar.client.command_line.input import lines_of, lines_of_file


def of(path: Path) -> list[bytes]:
    async def all_of() -> list[bytes]:
        return [line async for line in lines_of_file(path)]

    return anyio.run(all_of)


@given(data=st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b"\r", b""])).map(b"".join))
def test_lines_are_those_that_a_file_has(
    data: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("lines") / "file"
    path.write_bytes(data)
    with path.open("rb") as file:
        expected = [line.rstrip(b"\r\n") for line in file]
    # A last line of which only its end is there is none.
    if expected and not expected[-1] and not data.endswith(b"\n"):
        expected.pop()
    assert of(path) == expected


def test_a_line_may_be_longer_than_what_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "READ_BYTES", 10)
    path = tmp_path / "file"
    path.write_bytes(b"x" * 55 + b"\r\n" + b"y" * 9 + b"\r\n" + b"z")
    assert of(path) == [b"x" * 55, b"y" * 9, b"z"]


async def test_a_line_comes_as_soon_as_it_is_there_and_the_wait_for_another_can_be_cancelled() -> (
    None
):
    reading, writing = os.pipe()
    found: list[bytes] = []

    async def read() -> None:
        async for line in lines_of(reading):
            found.append(line)
            tasks.cancel_scope.cancel()

    try:
        os.write(writing, b"one\ntwo")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
    finally:
        os.close(reading)
        os.close(writing)
    assert found == [b"one"]
