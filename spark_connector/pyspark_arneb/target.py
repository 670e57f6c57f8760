"""Where a sealed tier is: one URI, below which every topic has a table.

The rule: a table's data files and its log are reached in one way and with the same settings,
delta-rs's object stores; so there are no two sets of credentials that could mean different places.
On this machine's disk they are plain files, and are on disk before anybody is told of them.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pyspark_arneb.log.topics import SCHEME

if TYPE_CHECKING:
    import pyarrow.fs

TABLE_LOG: Final = "_delta_log"

SCHEMES: Final = ("abfs", "abfss", "az", "azure", "gs", "hdfs", "s3", "s3a")
"""What delta-rs has stores for, besides this machine's disk."""

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]|^[._]")
"""What may mean something in a path; a leading dot or underline hides a directory."""


class LakeError(Exception):
    """The sealed tier cannot do what was asked for; the text is one line for the user."""


@dataclass(frozen=True, slots=True)
class Target:
    """A place for tables; a plain value, so it travels to executors."""

    uri: str
    """``file:///srv/lake``, ``s3://bucket/lake``; no slash at its end."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Storage options in delta-rs's names, which are those of the environment variables too."""

    @classmethod
    def of(cls, text: str, options: Mapping[str, str] | None = None) -> "Target":
        """The target that a user means: a path on this machine or a URI.

        Raises :class:`LakeError`.
        """
        scheme = urlsplit(text).scheme
        if not text or scheme not in ("", "file", *SCHEMES):
            known = ", ".join(f"{each}://" for each in SCHEMES)
            raise LakeError(f"expected a directory or a URI of {known}, got {text!r}")
        if scheme in ("", "file"):
            path = url2pathname(urlsplit(text).path) if scheme else os.path.expanduser(text)
            return cls(Path(os.path.abspath(path)).as_uri(), options or {})
        return cls(text.rstrip("/"), options or {})

    @property
    def directory(self) -> Path | None:
        """The directory on this machine; None if the target is somewhere else."""
        if not self.uri.startswith("file:"):
            return None
        return Path(url2pathname(urlsplit(self.uri).path))

    def of_table(self, topic: str) -> "Target":
        """Where the table of a topic (without a partition's suffix) is."""
        parts = topic.removeprefix(SCHEME).split("/", 2)
        return Target("/".join([self.uri, *map(encoded, parts)]), self.options)

    @property
    def delta_uri(self) -> str:
        """The URI as delta-rs takes it: its paths are not percent-encoded."""
        directory = self.directory
        return self.uri if directory is None else str(directory)

    @property
    def spark_uri(self) -> str:
        """The URI as Spark takes it: as delta-rs does, and it has another name for S3."""
        directory = self.directory
        if directory is not None:
            return f"file://{directory}"
        return self.uri.replace("s3://", "s3a://", 1)

    def file_system(self) -> "pyarrow.fs.FileSystem":
        """The target's files, by paths relative to it."""
        from pyarrow import fs

        directory = self.directory
        if directory is not None:
            return fs.SubTreeFileSystem(str(directory), fs.LocalFileSystem())
        from deltalake.fs import DeltaStorageHandler

        return fs.PyFileSystem(DeltaStorageHandler(self.uri, dict(self.options)))

    def files(self) -> Iterator[str]:
        """The paths of all files below, relative to the target; of none that is not there."""
        from pyarrow import fs

        chosen = fs.FileSelector("", recursive=True, allow_not_found=True)
        for info in self.file_system().get_file_info(chosen):
            if info.type is fs.FileType.File:
                yield info.path

    def __str__(self) -> str:
        return self.delta_uri


_DRAWN: Final = re.compile(r"\x1b\[[0-9;]*m|\u21b3")
"""Colours and arrows, with which delta-rs draws one cause below another."""


def causes(error: OSError) -> str:
    """What an object store says, and why, in one line."""
    lines = (" ".join(line.split()) for line in _DRAWN.sub("", str(error)).splitlines())
    return ": ".join(line.rstrip(".:") for line in lines if line)


def encoded(name: str) -> str:
    """A topic's name as part of a path that every engine takes literally: what is not plain
    becomes ``~`` and two hexadecimal digits a byte."""
    return _UNSAFE.sub(lambda unsafe: "".join(f"~{byte:02X}" for byte in unsafe[0].encode()), name)


def decoded(part: str) -> str:
    """The name that :func:`encoded` made ``part`` of."""
    raw = re.sub(rb"~([0-9A-F]{2})", lambda found: bytes.fromhex(found[1].decode()), part.encode())
    return raw.decode()


def tables_in(target: Target) -> list[str]:
    """The topics that have a table in ``target``, by their full names, in order."""
    found: set[str] = set()
    for path in target.files():
        parts = path.split("/")
        if len(parts) == 5 and parts[3] == TABLE_LOG:
            found.add(SCHEME + "/".join(map(decoded, parts[:3])))
    return sorted(found)


def make_durable(path: Path) -> None:
    """Have a file and its name on disk, so that it is still there after a power cut."""
    for each in (path, path.parent):
        descriptor = os.open(each, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
