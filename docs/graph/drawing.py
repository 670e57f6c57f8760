"""The drawing: a panel for each package, and what the others import of the core.

The rule: it decides colours and lines; what there is and where it stands was decided before.
"""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from docs.graph.boxes import (
    CAPTION,
    CORE,
    LIST,
    PACKAGES,
    PADDING,
    TITLE,
    Box,
    boxes_of,
    first_sentence,
    is_in,
    lines,
)
from docs.graph.layout import GAP, LANE, MARGIN, PAGE, ROW_GAP, Lane, Panel
from docs.graph.svg import Drawing
from grimp import build_graph

COLOURS: Final = {
    "arneb": "#8a5a00",
    "arneb_amqp": "#b3441e",
    "arneb_pulsar": "#1f6fb2",
    "arneb_cluster": "#a02c5a",
    "pyspark_arneb": "#7a4fa3",
    "arneb_core": "#2c6e49",
}
TINTS: Final = {
    "arneb": "#fdf6e7",
    "arneb_amqp": "#fdf1ec",
    "arneb_pulsar": "#edf5fc",
    "arneb_cluster": "#fbeef3",
    "pyspark_arneb": "#f5f0fa",
    "arneb_core": "#eef7f1",
}


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
    drawing = Drawing("Who imports whom in Arneb", PAGE, COLOURS.values())
    top, *middle, core = panels.values()
    wide = PAGE - 2 * MARGIN
    top.place(MARGIN, MARGIN, wide)
    shares = {
        "arneb_amqp": 0.31, "arneb_pulsar": 0.31, "arneb_cluster": 0.16, "pyspark_arneb": 0.22,
    }  # fmt: skip
    room = wide - GAP * 3 - 3 * LANE - 10
    x, y = MARGIN, top.y + top.height + ROW_GAP + 6
    for panel in middle:
        panel.place(x, y, room * shares[panel.package])
        x += panel.width + GAP
    for panel in middle:
        panel.height = max(each.height for each in middle)
    y += middle[0].height + ROW_GAP + 6
    core.place(MARGIN, y, wide, left=2 * LANE + 34, right=3 * LANE + 34)
    for panel in panels.values():
        draw_panel(drawing, panel)
    for panel in middle:
        x = panel.x + panel.width / 2
        drawing.arrow([(x, top.y + top.height), (x, panel.y - 1)], COLOURS["arneb"])
    pulsar, cluster = panels["arneb_pulsar"], panels["arneb_cluster"]
    across = pulsar.y + 14
    end = pulsar.x + pulsar.width + 1
    drawing.arrow([(cluster.x, across), (end, across)], COLOURS["arneb_cluster"])
    draw_borders(drawing, panels, borders)
    drawing.height = core.y + core.height + MARGIN
    return drawing.svg()


def draw_borders(
    drawing: Drawing, panels: Mapping[str, Panel], borders: Mapping[str, set[str]]
) -> None:
    """What the others import of the core: at its left side what frontends do, at its right the
    connector and the broker."""
    core = panels[CORE]
    sides = {
        "arneb_amqp": -1,
        "arneb_pulsar": -1,
        "arneb_cluster": 1,
        "pyspark_arneb": 1,
        "arneb": 1,
    }
    used: dict[int, int] = defaultdict(int)
    entered: dict[str, int] = defaultdict(int)
    for package in ("pyspark_arneb", "arneb_amqp", "arneb", "arneb_pulsar", "arneb_cluster"):
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
        elif package == "arneb_cluster":
            x = edge - 12 - 2 * LANE
            turn = core.y - 14 - LANE * 0.6
            middle = panel.x + panel.width / 2
            start = [(middle, panel.y + panel.height), (middle, turn), (x, turn)]
        else:
            start = [(x, panel.y + panel.height)]
        for name in sorted(borders[package], key=lambda each: (core.boxes[each].y, each)):
            box = core.boxes[name]
            into = box.y + 16 + 12 * entered[f"{name}{side}"]
            entered[f"{name}{side}"] += 1
            end = box.x if side < 0 else box.x + box.width
            drawing.arrow([*start, (x, into), (end + side, into)], COLOURS[package])
