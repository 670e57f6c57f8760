"""The layout: where the boxes of a package stand, and which way their arrows go.

The rule: whoever imports stands above what it imports. An arrow to the next row goes straight
there; one that passes rows by goes round them, in a lane of its own.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from docs.graph.boxes import PADDING, Box, levels, reduce

PAGE: Final = 1480
"""How wide the page is."""
MARGIN: Final = 24
GAP: Final = 22
"""Between panels, and between boxes of a row."""
ROW_GAP: Final = 34
"""Between rows: room for an arrow."""
LANE: Final = 13
"""From one arrow that passes boxes by to the next."""
HEAD: Final = 60
"""The title of a panel."""


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
            for row in range(max(height.values(), default=-1), -1, -1)
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
