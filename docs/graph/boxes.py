"""The boxes: the folders of a package, and which of them imports which.

The rule: one box is one folder. Modules that lie beside the folders are put together where that
makes no circle, and an arrow that follows from others is left out.
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from typing import Final

from grimp import ImportGraph

PACKAGES: Final = {
    "arneb": "broker",
    "arneb_amqp": "amqp_frontend",
    "arneb_pulsar": "pulsar_frontend",
    "arneb_cluster": "cluster",
    "pyspark_arneb": "spark_connector",
    "arneb_core": "core",
}
"""Each with its source root."""

CORE: Final = "arneb_core"


PADDING: Final = 14
"""Between a box's border and what stands in it."""
TITLE, CAPTION, LIST = 15.0, 12.0, 11.0
"""Sizes of letters."""
LETTER: Final = 0.545
"""How wide a letter is on average, as a part of its size."""


@dataclass(slots=True)
class Box:
    """A folder, or modules that lie beside folders."""

    name: str
    package: str
    children: list[str]
    """Modules and folders directly in it."""
    caption: str = ""
    below: set[str] = field(default_factory=set)
    """The boxes that it imports."""
    x: float = 0
    y: float = 0
    width: float = 0

    @property
    def title(self) -> str:
        return f"{self.name.rpartition('.')[2]}/" if self.caption else ""

    @property
    def captions(self) -> list[str]:
        return lines(self.caption, self.width - 2 * PADDING, CAPTION)

    @property
    def modules(self) -> list[str]:
        return lines(", ".join(self.children), self.width - 2 * PADDING, LIST)

    @property
    def height(self) -> float:
        title = TITLE + 6 if self.title else 0
        return 20 + title + 15 * len(self.captions) + 15 * len(self.modules)

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height


def first_sentence(path: Path) -> str:
    """What a folder says of itself."""
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(said.partition("\n\n")[0].split()).rstrip(".:").replace("``", "")


def boxes_of(graph: ImportGraph, package: str, root: Path) -> dict[str, Box]:
    """The boxes of ``package`` by name, with what they import of one another."""
    made: dict[str, Box] = {}
    beside: list[Box] = []
    for child in sorted(graph.find_children(package)):
        folder = root / PACKAGES[package] / child.replace(".", "/")
        if not graph.find_children(child):
            beside.append(Box(child, package, [child.rpartition(".")[2]]))
            continue
        children = [
            each.rpartition(".")[2] + ("/" if graph.find_children(each) else "")
            for each in sorted(graph.find_children(child))
        ]
        made[child] = Box(child, package, children, first_sentence(folder / "__init__.py"))
    for box in [*made.values(), *beside]:
        others = {*made, *(each.name for each in beside)} - {box.name}
        modules = {box.name, *graph.find_descendants(box.name)}
        for module in modules:
            for imported in graph.find_modules_directly_imported_by(module):
                box.below |= {each for each in others if is_in(imported, each)}
    return put_together(made, beside)


def is_in(module: str, folder: str) -> bool:
    return module == folder or module.startswith(folder + ".")


def put_together(folders: dict[str, Box], beside: Sequence[Box]) -> dict[str, Box]:
    """Fewer boxes for modules beside folders: two become one where neither leads to the other by
    way of a third."""
    boxes = folders | {box.name: box for box in beside}
    merged = True
    while merged:
        merged = False
        alone = sorted(each for each in boxes if not boxes[each].caption)
        for first in alone:
            for second in alone:
                if first < second and first in boxes and second in boxes:
                    merged |= _merge(boxes, first, second)
    return boxes


def _merge(boxes: dict[str, Box], first: str, second: str) -> bool:
    one, other = boxes[first], boxes[second]
    between = (reach(boxes, one.below - {second}) & _above(boxes, second)) | (
        reach(boxes, other.below - {first}) & _above(boxes, first)
    )
    if between:
        return False
    one.children = sorted({*one.children, *other.children})
    one.below = (one.below | other.below) - {first, second}
    del boxes[second]
    for box in boxes.values():
        if second in box.below:
            box.below = box.below - {second} | ({first} - {box.name})
    return True


def _above(boxes: Mapping[str, Box], name: str) -> set[str]:
    return {each for each in boxes if name in reach(boxes, boxes[each].below)}


def reach(boxes: Mapping[str, Box], start: Iterable[str]) -> set[str]:
    """What can be come to from ``start``, it included."""
    seen: set[str] = set()
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += boxes[name].below
    return seen


def reduce(boxes: Mapping[str, Box]) -> dict[str, set[str]]:
    """The arrows that do not follow from others."""
    return {
        box.name: {each for each in box.below if each not in reach(boxes, box.below - {each})}
        for box in boxes.values()
    }


def levels(boxes: Mapping[str, Box]) -> dict[str, int]:
    """How many boxes lie under each, one above the other. Raises :class:`SystemExit` for a
    circle."""
    found: dict[str, int] = {}

    def level(name: str, path: tuple[str, ...]) -> int:
        if name in path:
            raise SystemExit(f"a circle: {' -> '.join([*path[path.index(name) :], name])}")
        if name not in found:
            found[name] = max(
                (level(each, (*path, name)) + 1 for each in sorted(boxes[name].below)), default=0
            )
        return found[name]

    for name in sorted(boxes):
        level(name, ())
    return found


def lines(text: str, width: float, size: float) -> list[str]:
    """``text`` in lines no wider than ``width``."""
    return wrap(text, max(12, int(width / (size * LETTER))), break_long_words=False) if text else []
