"""Reaching: which modules a test may run, by what its file says.

The rule: rather too many than too few. A file reaches what it imports, wherever in it that stands,
and what those modules reach; what its folders' ``conftest.py`` reach; modules and files that its
texts name, because they may be started; and the whole broker if it names the program.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]

PACKAGE_ROOTS: Final = (
    "core", "amqp_frontend", "pulsar_frontend", "spark_connector", "cluster", "broker",
)  # fmt: skip
BESIDE: Final = ("tests", "conformance", "bench", "docs")
"""What imports itself by its path."""

PROGRAM: Final = "arneb"
"""A text that is this word alone may be the program, or Spark's name for the connector."""

CODECS: Final = "arneb_core.api.entries.codec.codecs"
BY_NAME: Final[Mapping[str, tuple[str, ...]]] = {
    CODECS: ("arneb_amqp.codec", "arneb_pulsar.codec"),
    "arneb.cli": ("arneb.commands", "arneb_pulsar.client.command_line.commands"),
}
"""What is imported by a name that is put together when the program runs: by whom, and what; of a
folder, all that is in it."""

LISTS: Final = ("tests.compiled_run",)
"""Modules whose texts name files that they do not start."""

DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+")
IMPORTED: Final = re.compile(r"(?:from|import)\s+([\w.]+)(?:\s+import\s+\(?([\w, ]+))?")
FILE: Final = re.compile(r"[\w/]+\.py\b")


def reached(file: Path) -> set[str]:
    """The names of all the modules that the tests in ``file`` reach."""
    modules = _modules()
    name = _name_of(file)
    conftests = {f"{folder}.conftest" for folder in _folders_of(name)}
    seen: set[str] = set()
    waiting = [name, *conftests]
    while waiting:
        each = waiting.pop()
        if each not in seen and (each in modules or each in BY_NAME):
            seen.add(each)
            waiting += _folders_of(each)
            waiting += _edges(each)
    return seen


def _folders_of(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts)))


def _name_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[parts[0] in PACKAGE_ROOTS :]).removesuffix(".__init__")


@cache
def _modules() -> dict[str, Path]:
    files = (path for root in (*PACKAGE_ROOTS, *BESIDE) for path in (ROOT / root).rglob("*.py"))
    return {_name_of(path): path for path in files}


@cache
def _edges(name: str) -> frozenset[str]:
    modules = _modules()
    found = {
        module
        for given in BY_NAME.get(name, ())
        for module in modules
        if f"{module}.".startswith(f"{given}.")
    }
    if name in modules and name not in LISTS:
        path = modules[name]
        found |= set(_said(name, path.name == "__init__.py", ast.parse(path.read_text())))
    return frozenset(each for each in found if each in modules or each in BY_NAME)


def _said(name: str, is_folder: bool, parsed: ast.Module) -> Iterator[str]:
    documentation = {
        id(each.value)
        for each in ast.walk(parsed)
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
    }
    package = name.split(".") if is_folder else name.split(".")[:-1]
    for each in ast.walk(parsed):
        if isinstance(each, ast.Import):
            yield from (alias.name for alias in each.names)
        elif isinstance(each, ast.ImportFrom):
            above = package[: len(package) + 1 - each.level] if each.level else []
            base = ".".join([*above, *([each.module] if each.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in each.names)
        elif (
            isinstance(each, ast.Constant)
            and isinstance(each.value, str)
            and id(each) not in documentation
        ):
            yield from _named(each.value, package)


def _named(text: str, package: Iterable[str]) -> Iterator[str]:
    if text == PROGRAM or re.search(r"(^|[/ ])arneb [a-z]", text):
        yield "arneb.cli"
        yield "pyspark_arneb"
    for module in DOTTED.findall(text):
        yield module
        yield f"{module}.__main__"
    for module, names in IMPORTED.findall(text):
        yield module
        yield from (f"{module}.{each.strip()}" for each in names.split(","))
    for file in FILE.findall(text):
        below = file.removesuffix(".py").replace("/", ".")
        yield below
        yield ".".join([*package, below])
