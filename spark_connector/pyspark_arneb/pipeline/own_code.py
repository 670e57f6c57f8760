"""Arneb's own code as an archive, for executors that have none, or another version.

The rule: executors run the code that submitted the job. They must have its dependencies (pyarrow,
lmdb and the like), which contain compiled code and so cannot be sent along.
"""

from collections.abc import Iterator
from importlib.metadata import distribution, entry_points
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile

from arneb_core.api.entries.codec import CODEC_GROUP

DISTRIBUTION: Final = "arneb"
CONNECTOR: Final = ("arneb_core", "pyspark_arneb")


def packages() -> list[str]:
    """Return the packages that executors need: the connector, its own dependencies in Arneb, and
    every codec's."""
    codecs = (each.module.partition(".")[0] for each in entry_points(group=CODEC_GROUP))
    return sorted({*CONNECTOR, *codecs})


def archive(directory: Path) -> Path:
    """Write a zip to ``directory`` that Python can import from, with the codecs' entry points."""
    installed = distribution(DISTRIBUTION)
    metadata = f"{DISTRIBUTION}-{installed.version}.dist-info"
    file = directory / f"{DISTRIBUTION}-{installed.version}.zip"
    with ZipFile(file, "w", ZIP_DEFLATED) as out:
        for package in packages():
            for name, found in _files_of(files(package), package):
                out.writestr(name, found.read_bytes())
        for name in ("METADATA", "entry_points.txt"):
            out.writestr(f"{metadata}/{name}", installed.read_text(name) or "")
    return file


def _files_of(place: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    for each in place.iterdir():
        path = f"{name}/{each.name}"
        if each.is_file():
            yield path, each
        elif each.name != "__pycache__":
            yield from _files_of(each, path)
