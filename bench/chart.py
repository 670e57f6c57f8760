"""Draws a table as a chart (SVG): for each row a bar for RabbitMQ and one for Arneb, and one for
Arneb with compiled modules if that was measured.

``python -m bench.chart RESULT.json …`` redraws the charts of existing results; ``make bench`` draws
one for each result that it writes.

The rule: a chart shows rates, and only rows with both figures. The length of a bar is proportional
to its figure, and the figure stands behind the bar, so that nobody has to measure.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

from bench.report import COMPILED, number

WIDTH: Final = 860
NAMES_WIDTH: Final = 330
FIGURES_WIDTH: Final = 130
BAR: Final = 11
GAP: Final = 12
TOP: Final = 56
RATES: Final = "msg/s"

DARK_STYLE: Final = """\
@media (prefers-color-scheme: dark) { text { fill: #d0d7de; } .base { fill: #6e7681; } }
"""
COMPILED_STYLE: Final = """.compiled { fill: #6cb6ff; }
"""
STYLE: Final = f"""
text {{ font: 13px system-ui, sans-serif; fill: #24292f; }}
.small {{ font-size: 11px; }}
.base {{ fill: #9aa4b0; }}
.subject {{ fill: #1f6feb; }}
{COMPILED_STYLE}{DARK_STYLE}"""


def chart(lines: Sequence[dict[str, Any]], title: str) -> str:
    """The chart of these lines of a table, in their order."""
    shown = [each for each in lines if each["unit"] == RATES and each["base"] and each["subject"]]
    compiled = [each.get("brokers", {}).get(COMPILED) for each in shown]
    has_compiled = any(compiled)
    rates = [rate for each in shown for rate in (each["base"], each["subject"])]
    rates += [each["figure"] for each in compiled if each]
    scale = (WIDTH - NAMES_WIDTH - FIGURES_WIDTH) / max(rates, default=1)
    row = (2 + has_compiled) * BAR + GAP
    height = TOP + row * len(shown) + 8
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" role="img">'
        ),
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE if has_compiled else STYLE.replace(COMPILED_STYLE, '')}</style>",
        f'<text x="0" y="18">{escape(title)}</text>',
        *_key("base", "RabbitMQ", NAMES_WIDTH),
        *_key("subject", "Arneb", NAMES_WIDTH + 110),
        *(_key("compiled", "Arneb, compiled", NAMES_WIDTH + 220) if has_compiled else ()),
    ]
    for place, (line, faster) in enumerate(zip(shown, compiled, strict=True)):
        top = TOP + row * place
        middle = top + (2 + has_compiled) * BAR // 2 + 4
        name = f'<text x="{NAMES_WIDTH - 10}" y="{middle}" text-anchor="end">'
        parts.append(f"{name}{escape(line['title'])}</text>")
        parts += _bar("base", line["base"], scale, top, "")
        parts += _bar("subject", line["subject"], scale, top + BAR, _times(line["ratio"]))
        if faster:
            times = _times(faster["ratio"])
            parts += _bar("compiled", faster["figure"], scale, top + 2 * BAR, times)
    return "\n".join([*parts, "</svg>", ""])


def _times(ratio: float) -> str:
    return f" ({ratio:.1f} x)"


def _key(kind: str, name: str, left: int) -> list[str]:
    return [
        f'<rect class="{kind}" x="{left}" y="32" width="12" height="12"/>',
        f'<text class="small" x="{left + 18}" y="42">{name}</text>',
    ]


def _bar(kind: str, value: float, scale: float, top: int, more: str) -> list[str]:
    length = value * scale
    right = NAMES_WIDTH + length + 6
    return [
        (
            f'<rect class="{kind}" x="{NAMES_WIDTH}" y="{top}" width="{length:.1f}" '
            f'height="{BAR - 1}"/>'
        ),
        f'<text class="small" x="{right:.1f}" y="{top + BAR - 2}">{number(value)}{more}</text>',
    ]


def draw(result: Path) -> Path:
    """Draw the chart of a result beside it; the result is the chart's path."""
    record = json.loads(result.read_text())
    when = record["time"][:10]
    title = f"Messages a second, {when}, medians of {record['rounds']} rounds"
    path = result.with_suffix(".svg")
    path.write_text(chart(record["lines"], title))
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the charts of the results; the exit status is 0. A file that is not a result raises."""
    parser = argparse.ArgumentParser(prog="bench.chart", description=__doc__)
    parser.add_argument("results", nargs="+", type=Path)
    for result in parser.parse_args(arguments).results:
        print(draw(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
