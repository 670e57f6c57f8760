"""Installing as people do: pipx and uvx, from the wheel, with nothing of this checkout."""

import os
import pwd
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from tests.browser.operator import REPOSITORY

from arneb import __version__

INSTALLERS: Final = ("pipx", "uv")
WITHIN_S: Final = 600


def run(*command: str | Path, cwd: Path, environment: Mapping[str, str]) -> str:
    """What it said, to people and to programs."""
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = ("-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    run(sys.executable, *build, cwd=REPOSITORY, environment={})
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pipx and uvx are."""
    folder = tmp_path_factory.mktemp("tools")
    venv.create(folder, with_pip=True)
    run(folder / "bin/pip", "install", "--quiet", *INSTALLERS, cwd=folder, environment={})
    return folder / "bin"


def has_owner() -> bool:
    """There is somebody that a broker can run as: root installs it for a user of its own."""
    try:
        return bool(os.geteuid() or pwd.getpwnam("arneb"))
    except KeyError:
        return False


def is_whole(arneb: tuple[str | Path, ...], folder: Path, environment: Mapping[str, str]) -> None:
    """It says its version, writes its configuration and knows its shell."""
    assert __version__ in run(*arneb, "--version", cwd=folder, environment=environment)
    output = run(*arneb, "init", "here", cwd=folder, environment=environment)
    text = (folder / "here/arneb.toml").read_text()
    assert "path_prefix" in text
    assert "an administrator; shown only once" in output
    if has_owner():
        assert "ExecStart=" in (folder / "here/arneb.service").read_text()
    else:
        assert "useradd --system arneb" in output, (
            "it must say why there is no unit, and what to do"
        )
    completion = {**environment, "_ARNEB_COMPLETE": "bash_source"}
    assert "arneb" in run(*arneb, cwd=folder, environment=completion)


def test_pipx_installs_it(wheel: Path, tools: Path, tmp_path: Path) -> None:
    environment = {
        "PIPX_HOME": str(tmp_path / "home"), "PIPX_BIN_DIR": str(tmp_path / "bin"),
        "PIPX_MAN_DIR": str(tmp_path / "man"),
    }  # fmt: skip
    run(tools / "pipx", "install", wheel, cwd=tmp_path, environment=environment)
    is_whole((tmp_path / "bin/arneb",), tmp_path, environment)
    assert (tmp_path / "man/man1/arneb.1").is_file()


def test_uvx_runs_it(wheel: Path, tools: Path, tmp_path: Path) -> None:
    environment = {"UV_CACHE_DIR": str(tmp_path / "cache"), "UV_TOOL_DIR": str(tmp_path / "tools")}
    uvx = (tools / "uvx", "--python", sys.executable, "--from", str(wheel), "arneb")
    is_whole(uvx, tmp_path, environment)
