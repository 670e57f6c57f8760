"""Compiles the hot modules with mypyc: for wheels as hatchling's build hook, or in place.

``python hatch_build.py`` builds beside the sources of this checkout (``make compiled``), and
``--clean`` takes that away again (``make pure``). ``HATCH_BUILD_HOOKS_ENABLE=true python -m
hatchling build -t wheel`` makes a wheel for this Python and machine; without it the wheel is pure,
and so is what any other Python installs.

The rule: the sources are the same and stay beside what is compiled. What is compiled is pure:
bytes and ``now`` in, effects out, and nothing of it waits, so that a debugger, a profiler and a
monkeypatch find the rest as it is written.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT: Final = Path(__file__).resolve().parent

SOURCE_ROOTS: Final = (
    "core",
    "amqp_frontend",
    "pulsar_frontend",
    "spark_connector",
    "cluster",
    "broker",
)

HOT: Final = (
    "amqp_frontend/arneb_amqp/plain_strings.py",
    "amqp_frontend/arneb_amqp/routing/routes.py",
    "amqp_frontend/arneb_amqp/session/consume/answers.py",
    "amqp_frontend/arneb_amqp/session/consume/deliverer.py",
    "amqp_frontend/arneb_amqp/session/consume/unacked.py",
    "amqp_frontend/arneb_amqp/session/effect_queue.py",
    "amqp_frontend/arneb_amqp/session/output.py",
    "amqp_frontend/arneb_amqp/session/publish/confirms.py",
    "amqp_frontend/arneb_amqp/session/publish/pieces.py",
    "amqp_frontend/arneb_amqp/session/publish/publisher.py",
    "amqp_frontend/arneb_amqp/wire/assembly.py",
    "amqp_frontend/arneb_amqp/wire/constants.py",
    "amqp_frontend/arneb_amqp/wire/content.py",
    "amqp_frontend/arneb_amqp/wire/deliver.py",
    "amqp_frontend/arneb_amqp/wire/erlang.py",
    "amqp_frontend/arneb_amqp/wire/fast.py",
    "amqp_frontend/arneb_amqp/wire/frames.py",
    "amqp_frontend/arneb_amqp/wire/items.py",
    "amqp_frontend/arneb_amqp/wire/methods.py",
    "amqp_frontend/arneb_amqp/wire/properties.py",
    "amqp_frontend/arneb_amqp/wire/property_judge.py",
    "amqp_frontend/arneb_amqp/wire/publishes.py",
    "amqp_frontend/arneb_amqp/wire/route.py",
    "amqp_frontend/arneb_amqp/wire/rows.py",
    "amqp_frontend/arneb_amqp/wire/tables.py",
)
"""What is compiled."""

GROUP: Final = "arneb"
"""Names the library that holds the code of all of them."""

SLICE: Final = "        Py_ssize_t slice_len = endn - startn;\n"
MENDED: Final = "        Py_ssize_t slice_len = endn > startn ? endn - startn : 0;\n"
"""In mypyc's ``bytes_ops.c``: a slice whose start lies behind its end is empty, as in Python. Up to
mypy 2.4 it is an error there."""

SETUP: Final = """
import sys
from pathlib import Path
from mypyc.build import mypycify
from setuptools import setup

slice_, mended, group, *files = {arguments!r}
extensions = mypycify(
    ["--config-file", "mypyc.ini", *files],
    opt_level="3", debug_level="0", include_runtime_files=False, group_name=group,
)
runtime = Path("build/bytes_ops.c")
source = runtime.read_text()
if source.count(slice_) != 1:
    sys.exit("expected one slice of bytes in mypyc's runtime library: is it mended there?")
runtime.write_text(source.replace(slice_, mended))
sys.argv = ["setup.py", "-q", "build_ext", "--build-lib", "built"]
setup(name="arneb-compiled", packages=[], ext_modules=extensions)
"""

MYPY: Final = """
[mypy]
strict = true
explicit_package_bases = true
namespace_packages = true
follow_imports = silent
warn_unused_ignores = false
"""


def compile_hot(into: Path) -> list[Path]:
    """Compile into the directory ``into``, laid out as packages are; the files that were made,
    relative to it. Raises :class:`subprocess.CalledProcessError`."""
    with tempfile.TemporaryDirectory(prefix="arneb-compile-") as place:
        directory = Path(place)
        # Paths below roots, as mypy is to know the modules by their packages' names.
        for root in SOURCE_ROOTS:
            (directory / root).symlink_to(ROOT / root)
        (directory / "mypyc.ini").write_text(MYPY)
        arguments = [SLICE, MENDED, GROUP, *HOT]
        (directory / "setup.py").write_text(SETUP.format(arguments=arguments))
        paths = os.pathsep.join(SOURCE_ROOTS)
        # pip's isolated environment is found by PYTHONPATH.
        searched = os.pathsep.join((*SOURCE_ROOTS, os.environ.get("PYTHONPATH", "")))
        environment = os.environ | {"MYPYPATH": paths, "PYTHONPATH": searched.strip(os.pathsep)}
        subprocess.run([sys.executable, "setup.py"], cwd=directory, env=environment, check=True)
        built = directory / "built"
        made = [path.relative_to(built) for path in sorted(built.rglob("*.so"))]
        for path in made:
            (into / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(built / path, into / path)
        return made


def _places() -> Iterator[tuple[Path, Path]]:
    """Where compiled modules stand in a wheel, and where in this checkout."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    library = Path(f"{GROUP}__mypyc{suffix}")
    yield library, ROOT / SOURCE_ROOTS[0] / library
    for path in map(Path, HOT):
        module = path.with_suffix(suffix)
        yield module.relative_to(module.parts[0]), ROOT / module


def clean() -> None:
    """Take away what was built in place."""
    for _, path in _places():
        path.unlink(missing_ok=True)


def build_in_place() -> None:
    """Compile beside the sources."""
    with tempfile.TemporaryDirectory(prefix="arneb-compiled-") as made:
        compile_hot(Path(made))
        for built, path in _places():
            shutil.copy2(Path(made) / built, path)


class CompiledModules(BuildHookInterface[Any]):
    """Puts compiled modules into a wheel, when that is asked for."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What compiling takes besides a C compiler: mypy follows what the modules import."""
        return ["mypy==2.4.*", "setuptools>=80", *self.metadata.core.dependencies]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the wheel is put together."""
        if self.target_name != "wheel" or version == "editable":
            return
        shutil.rmtree(self._made, ignore_errors=True)
        for path in compile_hot(self._made):
            build_data["force_include"][str(self._made / path)] = str(path)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called when the wheel is there."""
        shutil.rmtree(self._made, ignore_errors=True)

    @property
    def _made(self) -> Path:
        return Path(self.directory) / "compiled"


def main() -> None:
    """Build in place, or clean up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clean", action="store_true", help="take away what was built in place")
    if parser.parse_args().clean:
        clean()
    else:
        build_in_place()


if __name__ == "__main__":
    main()
