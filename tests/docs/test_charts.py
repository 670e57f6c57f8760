"""The charts of measurements are those of the figures beside them."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from bench.chart import FIGURES_WIDTH, NAMES_WIDTH, WIDTH, chart, draw

ROOT = Path(__file__).resolve().parents[2]
SHOWN = re.findall(r"\]\((bench/results/[^)]+\.svg)\)", (ROOT / "README.md").read_text())
SVG = "{http://www.w3.org/2000/svg}"


def line(title: str, base: float | None, subject: float | None, unit: str = "msg/s") -> dict:
    ratio = subject / base if base and subject else None
    return {"title": title, "unit": unit, "base": base, "subject": subject, "ratio": ratio}


def test_the_readme_shows_a_chart() -> None:
    assert SHOWN


@pytest.mark.parametrize("shown", SHOWN)
def test_a_chart_is_that_of_its_figures(shown: str, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    result.write_bytes((ROOT / shown).with_suffix(".json").read_bytes())
    assert draw(result).read_text() == (ROOT / shown).read_text()
    assert len(json.loads(result.read_text())["lines"]) > 1


def test_bars_are_as_long_as_their_figures() -> None:
    lines = [
        line("a", 100, 400),
        line("<b> & c", 50, 25),
        line("p50", 1, 2, "ms"),
        line("d", 1, None),
    ]
    drawn = ET.fromstring(chart(lines, "t"))
    bars = [each for each in drawn.iter(f"{SVG}rect") if each.get("x") == str(NAMES_WIDTH)]
    widths = [float(each.get("width", "")) for each in bars if each.get("height") != "12"]
    room = WIDTH - NAMES_WIDTH - FIGURES_WIDTH
    assert widths == pytest.approx([room / 4, room, room / 8, room / 16], abs=0.06)
    texts = [each.text for each in drawn.iter(f"{SVG}text")]
    assert {"a", "<b> & c", "400 (4.0 x)", "25 (0.5 x)"} <= set(texts)
    assert not {"p50", "d"} & set(texts)
