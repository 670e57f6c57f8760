"""What mypyc compiles: pure modules, whose build mends what its runtime library gets wrong."""

import ast
from pathlib import Path

import mypyc
import pytest
from hatch_build import HOT, MENDED, ROOT, SLICE


@pytest.mark.parametrize("name", HOT)
def test_what_is_compiled_waits_for_nothing(name: str) -> None:
    """Protocol code: bytes and ``now`` in, effects out. What waits stays as it is written."""
    parsed = ast.parse((ROOT / name).read_text())
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncWith, ast.AsyncFor)
    assert not any(isinstance(each, waiting) for each in ast.walk(parsed))
    imported = {
        module.split(".")[0]
        for each in ast.walk(parsed)
        for module in (
            [alias.name for alias in each.names]
            if isinstance(each, ast.Import)
            else [each.module or ""]
            if isinstance(each, ast.ImportFrom)
            else []
        )
    }
    assert not imported & {"trio", "socket", "os", "threading"}


def test_the_slice_that_is_mended_is_the_one_of_the_runtime_library() -> None:
    """Where a start lies behind its end Python gives nothing."""
    library = (Path(mypyc.__file__).parent / "lib-rt" / "bytes_ops.c").read_text()
    assert library.count(SLICE) == 1
    assert MENDED not in library
    assert sorted(HOT) == list(HOT)
