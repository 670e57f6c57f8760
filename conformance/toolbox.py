"""Builds programs in other languages, and other people's packages.

The rule: everything is built once, in ``.clients/`` of this checkout, in a directory whose name
depends on its sources. A second run downloads and builds nothing, and nothing is built in the
environment that runs the scenarios. A missing toolchain is a failure that names what to install,
not a skip.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[1]
CLIENTS: Final = REPOSITORY / ".clients"
BUILD_WITHIN_S: Final = 600.0
PLAYED: Final = "CONFORMANCE_PLAYED"
"""An environment variable: a file with the tests that a lane need not run again."""


def tool(name: str, package: str) -> str:
    """The path of the program ``name``; fails if it is not installed."""
    found = shutil.which(name) or shutil.which(name, path="/usr/local/go/bin")
    assert found, f"{name} is needed for this scenario: apt-get install {package}"
    return found


def finished(
    command: Sequence[str],
    where: Path,
    within_s: float,
    environment: Mapping[str, str] | None = None,
) -> str:
    """The output of ``command``, which must succeed."""
    ran = subprocess.run(
        command,
        cwd=where,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=within_s,
        check=False,
        env=own_environment() | dict(environment or {}),
    )
    assert ran.returncode == 0, f"{command} ended with {ran.returncode}:\n{ran.stdout}"
    return ran.stdout


def own_environment() -> dict[str, str]:
    """Our environment, without what would make another Python find our packages."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | {"GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}


def made_once(name: str, sources: Iterable[Path], make: Callable[[Path], None]) -> Path:
    """The directory that ``make`` has filled from ``sources``, now or in an earlier run."""
    digest = sha256(sys.version.encode())
    for source in sorted(sources):
        digest.update(source.read_bytes())
    place = CLIENTS / f"{name}-{digest.hexdigest()[:12]}"
    CLIENTS.mkdir(exist_ok=True)
    with (CLIENTS / f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another lane may need the same at the same time
        if not (place / ".made").exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            make(place)
            (place / ".made").touch()
    return place


def python_with(requirements: Path) -> Path:
    """The Python of a virtual environment with the packages of a requirements file."""

    def make(place: Path) -> None:
        finished([sys.executable, "-m", "venv", str(place)], place, BUILD_WITHIN_S)
        _pip(place / "bin/python", "install", "--requirement", str(requirements))

    name = requirements.parent.name.replace("_", "-")
    return made_once(f"python-{name}", [requirements], make) / "bin/python"


def unpack_source(python: Path, requirement: str, into: Path) -> None:
    """Put the source distribution of ``requirement``, which includes its tests, into ``into``."""
    name = requirement.partition("==")[0]
    command = ["download", "--no-deps", "--no-binary", name, "--dest", str(into), requirement]
    _pip(python, *command)
    (archive,) = into.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        extract(packed, into)
    archive.unlink()
    (root,) = (each for each in into.iterdir() if each.is_dir())
    for each in root.iterdir():
        each.rename(into / each.name)
    root.rmdir()


def extract(packed: tarfile.TarFile, into: Path) -> None:
    """Extract everything in an archive; newer Pythons make sure that nothing lands outside
    ``into``."""
    packed.extraction_filter = getattr(tarfile, "data_filter", None)  # from 3.11.4 on
    packed.extractall(into)


def _pip(python: Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    finished(command, python.parent, BUILD_WITHIN_S)
