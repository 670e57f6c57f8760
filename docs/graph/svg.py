"""The text of an SVG, piece by piece: rectangles, text and arrows.

The rule: it knows shapes, and nothing of what they stand for.
"""

from collections.abc import Iterable, Sequence
from html import escape


class Drawing:
    """A page of this width, with arrows in these colours; its height is set when it is known."""

    def __init__(self, title: str, width: int, arrow_colours: Iterable[str]) -> None:
        self.title = title
        self.width = width
        self.height = 0.0
        self.arrow_colours = tuple(arrow_colours)
        self.parts: list[str] = []

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
            for colour in self.arrow_colours
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height:.0f}" '
            f'width="{self.width}" height="{self.height:.0f}" '
            'font-family="Inter, Helvetica, Arial, sans-serif">\n'
            f"<title>{escape(self.title)}</title>\n<defs>{heads}</defs>\n"
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
