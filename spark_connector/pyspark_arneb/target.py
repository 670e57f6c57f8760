"""Where a sealed tier is: one URI, below which every topic has a table.

The rule: a table's data files and its log are reached in the same way and with the same settings,
through delta-rs's object stores, so there are never two sets of credentials that could lead to
different places. On this machine's disk they are plain files, made durable before anything refers
to them.
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
"""Schemes for which delta-rs has stores, besides this machine's disk."""

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]|^[._]")
"""Characters that may have a meaning in a path; a leading dot or underscore hides a directory."""


class LakeError(Exception):
    """The sealed tier cannot do what was asked for; the text is one line for the user."""


@dataclass(frozen=True, slots=True)
class Target:
    """A place for tables; a plain value, so it can be sent to executors."""

    uri: str
    """``file:///srv/lake``, ``s3://bucket/lake``; no slash at its end."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Storage options by delta-rs's names, which are also those of the environment variables."""

    @classmethod
    def of(cls, text: str, options: Mapping[str, str] | None = None) -> "Target":
        """Return the target for a path on this machine or a URI.

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
        """Return where the table of a topic (without a partition's suffix) is."""
        parts = topic.removeprefix(SCHEME).split("/", 2)
        return Target("/".join([self.uri, *map(encoded, parts)]), self.options)

    @property
    def delta_uri(self) -> str:
        """The URI as delta-rs takes it: its paths are not percent-encoded."""
        directory = self.directory
        return self.uri if directory is None else str(directory)

    @property
    def spark_uri(self) -> str:
        """The URI as Spark takes it: as delta-rs's, but with another scheme for S3."""
        directory = self.directory
        if directory is not None:
            return f"file://{directory}"
        return self.uri.replace("s3://", "s3a://", 1)

    def file_system(self) -> "pyarrow.fs.FileSystem":
        """Return the target's file system, with paths relative to the target."""
        from pyarrow import fs

        directory = self.directory
        if directory is not None:
            return fs.SubTreeFileSystem(str(directory), fs.LocalFileSystem())
        from deltalake.fs import DeltaStorageHandler

        return fs.PyFileSystem(DeltaStorageHandler(self.uri, dict(self.options)))

    def files(self) -> Iterator[str]:
        """Yield the paths of all files below, relative to the target; none if it does not exist."""
        from pyarrow import fs

        chosen = fs.FileSelector("", recursive=True, allow_not_found=True)
        for info in self.file_system().get_file_info(chosen):
            if info.type is fs.FileType.File:
                yield info.path

    def __str__(self) -> str:
        return self.delta_uri


_DRAWN: Final = re.compile(r"\x1b\[[0-9;]*m|\u21b3")
"""Colours and arrows, with which delta-rs indents one cause below another."""


def causes(error: OSError) -> str:
    """Return an object store's error and its causes in one line."""
    lines = (" ".join(line.split()) for line in _DRAWN.sub("", str(error)).splitlines())
    return ": ".join(line.rstrip(".:") for line in lines if line)


def encoded(name: str) -> str:
    """Encode a topic's name as part of a path that every engine takes literally: bytes of unsafe
    characters become ``~`` and two hexadecimal digits."""
    return _UNSAFE.sub(lambda unsafe: "".join(f"~{byte:02X}" for byte in unsafe[0].encode()), name)


def decoded(part: str) -> str:
    """Undo :func:`encoded`."""
    raw = re.sub(rb"~([0-9A-F]{2})", lambda found: bytes.fromhex(found[1].decode()), part.encode())
    return raw.decode()


def tables_in(target: Target) -> list[str]:
    """Return the full names of the topics that have a table in ``target``, sorted."""
    found: set[str] = set()
    for path in target.files():
        parts = path.split("/")
        if len(parts) == 5 and parts[3] == TABLE_LOG:
            found.add(SCHEME + "/".join(map(decoded, parts[:3])))
    return sorted(found)


def make_durable(path: Path) -> None:
    """Flush a file and its name to disk, so that it survives a power cut."""
    for each in (path, path.parent):
        descriptor = os.open(each, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
