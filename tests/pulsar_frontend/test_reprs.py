"""Whoever holds state says in one line what it holds, for logs and debuggers."""

import ast
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import connected

import arneb_pulsar

PACKAGE: Final = Path(arneb_pulsar.__file__).parent
VALUES: Final = frozenset({"Protocol", "Enum", "NamedTuple", "TypedDict"})
"""Bases of what holds no state that changes, or says what it is by itself."""
LINE_CHARACTERS_MAX: Final = 2000


def classes(tree: ast.Module) -> Iterator[ast.ClassDef]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def holds_state(node: ast.ClassDef) -> bool:
    """It is no value, no error and no description, and has something to remember."""
    bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
    decorators = [ast.unparse(each) for each in node.decorator_list]
    is_error = any(base.endswith(("Error", "Exception")) or base in ERRORS for base in bases)
    if bases & VALUES or is_error or any("frozen=True" in each for each in decorators):
        return False
    is_dataclass = any(each.startswith("dataclass") for each in decorators)
    return is_dataclass or "__init__" in methods(node)


def methods(node: ast.ClassDef) -> set[str]:
    return {each.name for each in node.body if isinstance(each, ast.FunctionDef)}


MODULES: Final = {
    path: ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
    if not path.stem.endswith("_pb2")
}
ERRORS: Final = frozenset(
    node.name
    for tree in MODULES.values()
    for node in classes(tree)
    if node.bases and ast.unparse(node.bases[0]).endswith(("Error", "Exception"))
)


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


HOLDERS: Final = {
    (module_of(path), node.name): node
    for path, tree in MODULES.items()
    for node in classes(tree)
    if holds_state(node)
}


def has_repr(node: ast.ClassDef, module: ast.Module) -> bool:
    """Its own, or that of a base in the same module."""
    bases = {ast.unparse(base) for base in node.bases}
    return "__repr__" in methods(node) or any(
        has_repr(each, module) for each in classes(module) if each.name in bases
    )


def test_every_holder_of_state_has_a_repr() -> None:
    assert len(HOLDERS) > 40
    trees = {module_of(path): tree for path, tree in MODULES.items()}
    assert [name for name, node in HOLDERS.items() if not has_repr(node, trees[name[0]])] == []


@pytest.mark.real_time
async def test_every_repr_of_a_running_broker_is_one_line(open_broker: OpenBroker) -> None:
    settings = {"deduplication": True}
    async with (
        open_broker(**settings) as running,
        connected(running.context, 2) as (client, other),
    ):
        await client.subscribe()
        await client.flow(10)
        await client.producer()
        await client.publish(b"a", b"b")
        await client.take(4)
        await other.subscribe(consumer_id=7, subscription="other")
        found = {
            type(each).__name__: repr(each)
            for each in gc.get_objects()
            if (type(each).__module__, type(each).__name__) in HOLDERS
        }
        assert {"Connection", "ConnectionSession", "Producer", "Consumer", "Writer"} <= set(found)
        for line in found.values():
            assert line.isprintable()
            assert len(line) <= LINE_CHARACTERS_MAX, line
        (attached,) = running.context.consumers.of(running.core.topic(NAME))[:1]
        assert repr(attached).startswith(f"<ClientConsumer {NAME}/s/")
        assert "0 in flight" in found["Producer"]


NAME: Final = "persistent://public/default/t"
