"""Disks that fail: a preloaded shim controlled by a file, and a file system without room."""

import mmap
import os
import resource
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

SOURCE = Path(__file__).with_name("failfs.c")
FIELD = struct.Struct("=I")


class Field(Enum):
    """The fields of the struct at the top of ``failfs.c``, by index."""

    SYNC_ERROR = 0
    WRITE_ERROR = 1
    FULL_BYTES = 2
    STALL = 3
    SYNCS = 4
    WRITES = 5
    FAILURES = 6
    CUT_AFTER = 7
    CUT_SEED = 8
    CUTS = 9


CONTROL_BYTES = len(Field) * FIELD.size


def compile_shim(directory: Path) -> Path | None:
    """The compiled shim; None if there is no compiler."""
    return compiled(SOURCE, directory / "failfs.so")


def compiled(source: Path, library: Path) -> Path | None:
    """Compile ``source`` into a library that can be preloaded; None if there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return library


class FailingDisk:
    """Controls the shim through its control file."""

    def __init__(self, shim: Path, control: Path, watched: Path) -> None:
        control.write_bytes(bytes(CONTROL_BYTES))
        self.environment = {
            "LD_PRELOAD": str(shim),
            "FAILFS_CONTROL": str(control),
            "FAILFS_PATH": str(watched),
        }
        with control.open("r+b") as file:
            self._mapped = mmap.mmap(file.fileno(), CONTROL_BYTES)

    def __getitem__(self, field: Field) -> int:
        value: int = FIELD.unpack_from(self._mapped, field.value * FIELD.size)[0]
        return value

    def __setitem__(self, field: Field, value: int) -> None:
        FIELD.pack_into(self._mapped, field.value * FIELD.size, value)

    def heal(self) -> None:
        """Let every call succeed again."""
        for field in (
            Field.SYNC_ERROR,
            Field.WRITE_ERROR,
            Field.FULL_BYTES,
            Field.STALL,
            Field.CUT_AFTER,
        ):
            self[field] = 0

    def cut(self, after: int, seed: int) -> None:
        """Cut the power during a write or sync, counted from now, the first being 1. Data that are
        not flushed then are lost or not, at random."""
        self[Field.CUT_SEED] = seed
        self[Field.CUT_AFTER] = after

    def close(self) -> None:
        self._mapped.close()


class SmallDisk:
    """A file system of a few MiB in memory that can be enlarged."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def resize(self, mib: int) -> None:
        _mount("-o", f"remount,size={mib}m", "-t", "tmpfs", "tmpfs", str(self.place))

    @classmethod
    @contextmanager
    def mounted(cls, place: Path, mib: int) -> Iterator["SmallDisk | None"]:
        """A mounted file system; None if we are not allowed to mount."""
        place.mkdir()
        options = ("-o", f"size={mib}m", "-t", "tmpfs", "tmpfs", str(place))
        if os.geteuid() != 0 or not _mount(*options):
            yield None
            return
        try:
            yield cls(place)
        finally:
            subprocess.run(["umount", "--lazy", str(place)], check=True)


def _mount(*arguments: str) -> bool:
    command = ["mount", *arguments]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def limit_file_size(pid: int, size_bytes: int | None) -> None:
    """Set RLIMIT_FSIZE of a running process, which has the effect of a full disk for files beyond
    that size."""
    size = resource.RLIM_INFINITY if size_bytes is None else size_bytes
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
