"""The table of the Java client's test methods names what is there, and everything that is."""

import ast
import re
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[1] / "conformance/amqp"
ROW: Final = re.compile(r"^\| (?P<name>\w+) \| (?P<method>\w+) \| (?P<here>.+) \|$", re.MULTILINE)
TEST: Final = re.compile(r"^`(?P<file>test_\w+\.py)::(?P<test>test_\w+)`$")

PAGE: Final = (FOLDER / "JAVA.md").read_text(encoding="utf-8")


def rows() -> list[tuple[str, str]]:
    """What each row is about and what it says."""
    found = [(f"{each['name']}.{each['method']}", each["here"]) for each in ROW.finditer(PAGE)]
    return [each for each in found if each[0] != "class.method"]


def written() -> set[tuple[str, str]]:
    """Every scenario of the folder, with its file."""
    return {
        (path.name, node.name)
        for path in (FOLDER / "java").glob("test_*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def named() -> set[tuple[str, str]]:
    return {(match["file"], match["test"]) for _, here in rows() if (match := TEST.match(here))}


def test_every_scenario_in_the_table_is_written() -> None:
    assert named() - written() == set()


def test_every_scenario_stands_in_the_table() -> None:
    assert written() - named() == set()


def test_no_method_stands_there_twice() -> None:
    methods = [method for method, _ in rows()]
    assert len(methods) == len(set(methods))


def test_what_is_not_there_has_a_reason() -> None:
    """A row without a scenario says why, in words."""
    assert all(TEST.match(here) or (len(here) > 10 and "`" not in here) for _, here in rows())
