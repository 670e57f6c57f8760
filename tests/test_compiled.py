"""What mypyc compiles: pure modules, whose build mends what its runtime library gets wrong."""

import ast
import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import mypyc
import pytest
from hatch_build import GROUP, HOT, MENDED, ROOT, SLICE, SOURCE_ROOTS, CompiledModules
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from packaging.requirements import Requirement


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


def test_no_code_asks_a_class_for_its_slots() -> None:
    """A class that mypyc compiled has none, whatever its source says."""
    sources = [path for root in SOURCE_ROOTS for path in (ROOT / root).rglob("*.py")]
    assert len(sources) > 500
    for path in sources:
        attributes = (
            each
            for each in ast.walk(ast.parse(path.read_text()))
            if isinstance(each, ast.Attribute)
        )
        assert all(each.attr != "__slots__" for each in attributes), path


def test_the_slice_that_is_mended_is_the_one_of_the_runtime_library() -> None:
    """Where a start lies behind its end Python gives nothing."""
    library = (Path(mypyc.__file__).parent / "lib-rt" / "bytes_ops.c").read_text()
    assert library.count(SLICE) == 1
    assert MENDED not in library
    assert sorted(HOT) == list(HOT)


def test_a_wheel_carries_the_compiled_modules_beside_their_sources(tmp_path: Path) -> None:
    """Built as pip does it: in an environment that is found by PYTHONPATH alone."""
    venv.create(tmp_path / "venv", with_pip=False)
    python = str(tmp_path / "venv/bin/python")
    theirs = next(each for each in sys.path if Path(each).name == "site-packages")
    built = subprocess.run(
        [python, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")],
        cwd=ROOT,
        env=os.environ | {"HATCH_BUILD_HOOKS_ENABLE": "true", "PYTHONPATH": theirs},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (made,) = (tmp_path / "dist").glob("*.whl")
    assert not made.name.endswith("-none-any.whl")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    modules = [Path(*Path(each).parts[1:]) for each in HOT]
    wanted = {f"{GROUP}__mypyc{suffix}"}
    wanted |= {str(each) for each in modules} | {str(each.with_suffix(suffix)) for each in modules}
    with zipfile.ZipFile(made) as wheel:
        assert wanted <= set(wheel.namelist())
        wheel.extractall(tmp_path / "installed")
    packages = os.pathsep.join((str(tmp_path / "installed"), theirs))
    serve = [python, "-m", "arneb", "serve", "--data-dir", "data", "--amqp", "127.0.0.1:0"]
    serve += [f"--{each}=off" for each in ("pulsar", "http", "http-pulsar")]
    with subprocess.Popen(
        serve,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": packages},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as broker:
        assert broker.stdout is not None
        first = broker.stdout.readline()
        broker.terminate()
    assert ", compiled, " in first, first


def test_compiling_asks_for_what_the_modules_import(tmp_path: Path) -> None:
    """mypy follows imports into the project's dependencies."""
    metadata = ProjectMetadata(str(ROOT), PluginManager())
    hook = CompiledModules(str(ROOT), {}, None, metadata, str(tmp_path), "wheel")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {Requirement(each).name for each in project["dependencies"]}
    assert wanted <= {Requirement(each).name for each in hook.dependencies()}
