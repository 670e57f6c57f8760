"""``python -m docs.graph``: writes the drawing, or looks whether it is of the code as it is."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from docs.graph.drawing import draw

SVG: Final = Path(__file__).resolve().parents[1] / "graph.svg"


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
