"""Arneb's own code as an archive, for executors that have none, or another version.

The rule: what executors run is what the job was submitted with. What that stands on (pyarrow, lmdb
and the like) they must have; it is not Python alone, so it cannot come along.
"""

from collections.abc import Iterator
from importlib.metadata import distribution, entry_points
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile

from arneb_core.api.codec import CODEC_GROUP

DISTRIBUTION: Final = "arneb"
CONNECTOR: Final = ("arneb_core", "pyspark_arneb")


def packages() -> list[str]:
    """The packages that executors need: the connector, what is below it, and every codec's."""
    codecs = (each.module.partition(".")[0] for each in entry_points(group=CODEC_GROUP))
    return sorted({*CONNECTOR, *codecs})


def archive(directory: Path) -> Path:
    """A zip in ``directory`` that Python can import from; it has the codecs' entry points."""
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
