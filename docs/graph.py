"""Draws who imports whom: ``python docs/graph.py [--check]`` writes ``docs/graph.svg``.

The rule: what is drawn is what the code says, imports inside functions and for type checkers
included, and arrows only point down. Where the code has a circle there is no such drawing, and
this fails; that no module takes part in one is checked by ``make check``.

One box is one folder of a package. Modules that lie beside the folders are put together where
that makes no circle. An arrow that follows from others is left out.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Final

from grimp import ImportGraph, build_graph

SVG: Final = Path(__file__).with_name("graph.svg")

PACKAGES: Final = {
    "arneb": "broker",
    "arneb_amqp": "amqp_frontend",
    "arneb_pulsar": "pulsar_frontend",
    "pyspark_arneb": "spark_connector",
    "arneb_core": "core",
}
"""Each with its source root."""

CORE: Final = "arneb_core"

COLOURS: Final = {
    "arneb": "#8a5a00",
    "arneb_amqp": "#b3441e",
    "arneb_pulsar": "#1f6fb2",
    "pyspark_arneb": "#7a4fa3",
    "arneb_core": "#2c6e49",
}
TINTS: Final = {
    "arneb": "#fdf6e7",
    "arneb_amqp": "#fdf1ec",
    "arneb_pulsar": "#edf5fc",
    "pyspark_arneb": "#f5f0fa",
    "arneb_core": "#eef7f1",
}

PAGE: Final = 1480
MARGIN: Final = 24
GAP: Final = 22
"""Between panels, and between boxes of a row."""
ROW_GAP: Final = 34
"""Between rows: room for an arrow."""
LANE: Final = 13
"""From one arrow that passes boxes by to the next."""
PADDING: Final = 14
HEAD: Final = 60
"""The title of a panel."""
TITLE, CAPTION, LIST = 15.0, 12.0, 11.0
"""Sizes of letters."""
LETTER: Final = 0.545
"""How wide a letter is on the average, of its size."""


# What there is


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


def lines(text: str, width: float, size: float) -> list[str]:
    """``text`` in lines no wider than ``width``."""
    return wrap(text, max(12, int(width / (size * LETTER))), break_long_words=False) if text else []


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


# Where it stands


@dataclass(slots=True)
class Lane:
    """An arrow that passes boxes by: out of a box's side, down, and into another's side."""

    start: Box
    end: Box
    side: int
    """-1 left, 1 right."""
    number: int = 0


class Panel:
    """A package: its boxes in rows, the lowest last."""

    def __init__(self, package: str, caption: str, boxes: Mapping[str, Box]) -> None:
        self.package = package
        self.caption = caption
        self.boxes = boxes
        self.arrows = reduce(boxes)
        height = levels(boxes)
        self.rows: list[list[Box]] = [
            sorted((boxes[each] for each in boxes if height[each] == row), key=lambda b: b.name)
            for row in range(max(height.values()), -1, -1)
        ]
        self._order()
        self.lanes = list(self._lanes())
        self.x = self.y = self.width = self.height = 0.0

    def _order(self) -> None:
        """Put boxes near what they point to."""
        for _ in range(4):
            for upper, lower in zip(self.rows, self.rows[1:], strict=False):
                places = {box.name: index for index, box in enumerate(upper)}
                lower.sort(key=lambda box: (_mean(self._over(box.name), places), box.name))
            for upper, lower in reversed([*zip(self.rows, self.rows[1:], strict=False)]):
                places = {box.name: index for index, box in enumerate(lower)}
                upper.sort(key=lambda box: (_mean(self.arrows[box.name], places), box.name))

    def _over(self, name: str) -> set[str]:
        return {each for each, below in self.arrows.items() if name in below}

    def _lanes(self) -> Iterator[Lane]:
        row_of = {box.name: index for index, row in enumerate(self.rows) for box in row}
        found = [
            (row_of[each] - row_of[name], self.boxes[name], self.boxes[each])
            for name, below in sorted(self.arrows.items())
            for each in sorted(below)
            if row_of[each] - row_of[name] > 1
        ]
        taken: dict[int, int] = {-1: 0, 1: 0}
        for _, start, end in sorted(found, key=lambda one: (one[0], one[1].name, one[2].name)):
            side = self._side(row_of, start, end, taken)
            taken[side] += 1
            yield Lane(start, end, side, taken[side])

    def _side(
        self, row_of: Mapping[str, int], start: Box, end: Box, taken: Mapping[int, int]
    ) -> int:
        """Where both are at the edge of their rows, or else where fewer lanes are."""
        free = [
            side
            for side in (-1, 1)
            if all(
                self.rows[row_of[each.name]][0 if side < 0 else -1] is each for each in (start, end)
            )
        ]
        return min(free or (-1, 1), key=lambda side: (taken[side], side))

    def place(self, x: float, y: float, width: float, left: float = 0, right: float = 0) -> None:
        """Stand at ``x``, ``y``; ``left`` and ``right`` are kept free for arrows from outside."""
        self.x, self.y, self.width = x, y, width
        own = {side: sum(lane.side == side for lane in self.lanes) for side in (-1, 1)}
        lane_room = {side: (LANE * own[side] + 8) if own[side] else 0 for side in (-1, 1)}
        start = x + PADDING + left + lane_room[-1]
        inner = width - 2 * PADDING - left - right - lane_room[-1] - lane_room[1]
        top = y + HEAD
        for row in self.rows:
            each = (inner - GAP * (len(row) - 1)) / len(row)
            for index, box in enumerate(row):
                box.x, box.y, box.width = start + index * (each + GAP), top, each
            top += max(box.height for box in row) + ROW_GAP
        self.height = top - ROW_GAP + PADDING - y
        self.edge = {-1: start, 1: start + inner}


def _mean(names: Iterable[str], places: Mapping[str, int]) -> float:
    found = [places[each] for each in names if each in places]
    return sum(found) / len(found) if found else 0.0


# How it looks


class Drawing:
    """The text of an SVG, piece by piece."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.height = 0.0

    def rect(
        self, x: float, y: float, width: float, height: float, fill: str, stroke: str, radius: int
    ) -> None:
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'rx="{radius}" fill="{fill}" stroke="{stroke}"/>'
        )

    def text(
        self, x: float, y: float, text: str, size: float, fill: str, *, bold: bool = False
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}"{weight} fill="{fill}">'
            f"{escape(text)}</text>"
        )

    def arrow(self, points: Sequence[tuple[float, float]], colour: str) -> None:
        """Along ``points``, with round corners."""
        path = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
        for before, corner, after in zip(points, points[1:], points[2:], strict=False):
            start, end = _towards(corner, before, 7), _towards(corner, after, 7)
            path.append(f"L{start[0]:.1f} {start[1]:.1f}")
            path.append(f"Q{corner[0]:.1f} {corner[1]:.1f} {end[0]:.1f} {end[1]:.1f}")
        path.append(f"L{points[-1][0]:.1f} {points[-1][1]:.1f}")
        self.parts.append(
            f'<path d="{" ".join(path)}" fill="none" stroke="{colour}" stroke-width="1.5" '
            f'marker-end="url(#head-{colour[1:]})"/>'
        )

    def swing(self, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
        """From one row to the next."""
        half = (start[1] + end[1]) / 2
        self.parts.append(
            f'<path d="M{start[0]:.1f} {start[1]:.1f} C{start[0]:.1f} {half:.1f} {end[0]:.1f} '
            f'{half:.1f} {end[0]:.1f} {end[1]:.1f}" fill="none" stroke="{colour}" '
            f'stroke-width="1.5" marker-end="url(#head-{colour[1:]})"/>'
        )

    def svg(self) -> str:
        heads = "".join(
            f'<marker id="head-{colour[1:]}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
            f'markerHeight="8" orient="auto"><path d="M0 0.8 L7.5 4 L0 7.2 z" fill="{colour}"/>'
            "</marker>"
            for colour in COLOURS.values()
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {PAGE} {self.height:.0f}" '
            f'width="{PAGE}" height="{self.height:.0f}" '
            'font-family="Inter, Helvetica, Arial, sans-serif">\n'
            f"<title>Who imports whom in Arneb</title>\n<defs>{heads}</defs>\n"
            f'<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(self.parts) + "\n"
            "</svg>\n"
        )


def _towards(
    point: tuple[float, float], other: tuple[float, float], most: float
) -> tuple[float, float]:
    """From ``point`` on the way to ``other``, a corner's radius far."""
    dx, dy = other[0] - point[0], other[1] - point[1]
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    part = min(most, length / 2) / length
    return point[0] + dx * part, point[1] + dy * part


def draw_panel(drawing: Drawing, panel: Panel) -> None:
    colour, tint = COLOURS[panel.package], TINTS[panel.package]
    drawing.rect(panel.x, panel.y, panel.width, panel.height, tint, colour + "55", 10)
    root = f"{PACKAGES[panel.package]}/{panel.package}"
    drawing.text(panel.edge[-1], panel.y + 26, root, 17, colour, bold=True)
    (caption, *_) = lines(panel.caption, panel.width, CAPTION) or [""]
    drawing.text(panel.edge[-1], panel.y + 45, caption.rstrip(":"), CAPTION, "#555555")
    for box in panel.boxes.values():
        drawing.rect(box.x, box.y, box.width, box.height, "#ffffff", colour, 6)
        y = box.y + 8
        if box.title:
            y += TITLE + 2
            drawing.text(box.x + PADDING, y, box.title, TITLE, colour, bold=True)
            y += 4
        for line in box.captions:
            y += 15
            drawing.text(box.x + PADDING, y, line, CAPTION, "#333333")
        for line in box.modules:
            y += 15
            drawing.text(box.x + PADDING, y, line, LIST, "#777777")
    for upper, lower in zip(panel.rows, panel.rows[1:], strict=False):
        for box in upper:
            for other in lower:
                if other.name in panel.arrows[box.name]:
                    draw_step(drawing, box, other, colour)
    for lane in panel.lanes:
        x = panel.edge[lane.side] + lane.side * (8 + LANE * (lane.number - 1) + 6)
        draw_lane(drawing, panel, lane, x, colour)


def draw_step(drawing: Drawing, box: Box, other: Box, colour: str) -> None:
    """To a box of the next row: straight down where one lies over the other."""
    low, high = max(box.x, other.x), min(box.x + box.width, other.x + other.width)
    if high - low > 30:
        x = (low + high) / 2
        drawing.arrow([(x, box.bottom), (x, other.y - 1)], colour)
        return
    side = 1 if other.middle > box.middle else -1
    start = box.middle + side * (box.width / 2 - 20)
    end = other.middle - side * (other.width / 2 - 20)
    drawing.swing((start, box.bottom), (end, other.y - 1), colour)


def draw_lane(drawing: Drawing, panel: Panel, lane: Lane, x: float, colour: str) -> None:
    """Out of and into the sides of boxes at the edge, the others from below and from above."""
    side, number = lane.side, lane.number

    def row_of(box: Box) -> list[Box]:
        return next(row for row in panel.rows if box in row)

    def is_at_edge(box: Box) -> bool:
        return row_of(box)[0 if side < 0 else -1] is box

    def edge(box: Box) -> float:
        return box.x if side < 0 else box.x + box.width

    start, end = lane.start, lane.end
    if is_at_edge(start):
        out = start.bottom - 6 - 4 * number
        points = [(edge(start), out), (x, out)]
    else:
        out = max(box.bottom for box in row_of(start)) + 6 + 3 * number
        column = edge(start) - side * 12 * number
        points = [(column, start.bottom), (column, out), (x, out)]
    if is_at_edge(end):
        into = end.y + 6 + 5 * number
        points += [(x, into), (edge(end) + side, into)]
    else:
        into = end.y - 8 - 3 * number
        column = edge(end) - side * 12 * number
        points += [(x, into), (column, into), (column, end.y - 1)]
    drawing.arrow(points, colour)


def draw(root: Path) -> str:
    """The whole page."""
    graph = build_graph(*PACKAGES, exclude_type_checking_imports=False, cache_dir=None)
    panels = {
        each: Panel(
            each,
            first_sentence(root / source / each / "__init__.py"),
            boxes_of(graph, each, root),
        )
        for each, source in PACKAGES.items()
    }
    borders = {
        package: {
            box.name
            for box in panels[CORE].boxes.values()
            if any(
                is_in(imported, box.name)
                for module in {package, *graph.find_descendants(package)}
                for imported in graph.find_modules_directly_imported_by(module)
            )
        }
        for package in PACKAGES
        if package != CORE
    }
    drawing = Drawing()
    top, *middle, core = panels.values()
    wide = PAGE - 2 * MARGIN
    top.place(MARGIN, MARGIN, wide)
    shares = {"arneb_amqp": 0.37, "arneb_pulsar": 0.37, "pyspark_arneb": 0.26}
    room = wide - GAP * 2 - 2 * LANE - 10
    x, y = MARGIN, top.y + top.height + ROW_GAP + 6
    for panel in middle:
        panel.place(x, y, room * shares[panel.package])
        x += panel.width + GAP
    for panel in middle:
        panel.height = max(each.height for each in middle)
    y += middle[0].height + ROW_GAP + 6
    core.place(MARGIN, y, wide, left=2 * LANE + 34, right=2 * LANE + 34)
    for panel in panels.values():
        draw_panel(drawing, panel)
    for panel in middle:
        x = panel.x + panel.width / 2
        drawing.arrow([(x, top.y + top.height), (x, panel.y - 1)], COLOURS["arneb"])
    draw_borders(drawing, panels, borders)
    drawing.height = core.y + core.height + MARGIN
    return drawing.svg()


def draw_borders(
    drawing: Drawing, panels: Mapping[str, Panel], borders: Mapping[str, set[str]]
) -> None:
    """What the others import of the core: at its left side what frontends do, at its right the
    connector and the broker."""
    core = panels[CORE]
    sides = {"arneb_amqp": -1, "arneb_pulsar": -1, "pyspark_arneb": 1, "arneb": 1}
    used: dict[int, int] = defaultdict(int)
    entered: dict[str, int] = defaultdict(int)
    for package in ("pyspark_arneb", "arneb_amqp", "arneb", "arneb_pulsar"):
        panel, side = panels[package], sides[package]
        number, used[side] = used[side], used[side] + 1
        edge = core.x if side < 0 else core.x + core.width
        x = edge - side * (16 + LANE * number)
        if package == "arneb":  # past the connector
            x = edge - 12
            start = [(x, panel.y + panel.height)]
        elif package == "arneb_pulsar":
            turn = core.y - 14 - LANE * 0.6
            start = [(panel.x + 24, panel.y + panel.height), (panel.x + 24, turn), (x, turn)]
        elif package == "pyspark_arneb":
            x = edge - 12 - LANE
            start = [(x, panel.y + panel.height)]
            if x > panel.x + panel.width - 8:
                turn = core.y - 14
                start = [(panel.x + panel.width - 24, panel.y + panel.height)]
                start += [(panel.x + panel.width - 24, turn), (x, turn)]
        else:
            start = [(x, panel.y + panel.height)]
        for name in sorted(borders[package], key=lambda each: core.boxes[each].y):
            box = core.boxes[name]
            into = box.y + 16 + 12 * entered[f"{name}{side}"]
            entered[f"{name}{side}"] += 1
            end = box.x if side < 0 else box.x + box.width
            drawing.arrow([*start, (x, into), (end + side, into)], COLOURS[package])


def main(arguments: Sequence[str]) -> int:
    drawn = draw(SVG.parent.parent)
    if "--check" in arguments:
        if SVG.read_text(encoding="utf-8") == drawn:
            return 0
        print(f"{SVG.name} shows another code than this one: run `make graph`", file=sys.stderr)
        return 1
    SVG.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
