"""Checks a data directory: its file system, its files, and who can read them.

The rule: nothing is changed, and files that a running broker has open are examined only from
outside.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from arneb.doctor.findings import Finding, error, note, warning
from arneb.store.check import check_store
from arneb_core.api.errors import ForeignDirectory, StoreUnusable
from arneb_core.store.directory.directory import Content, holder_of, is_held, look_at

MOUNTS: Final = Path("/proc/self/mountinfo")

LOCAL: Final = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "bcachefs"})
OVER_NETWORK: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs",
                                 "fuse.glusterfs", "fuse.sshfs", "lustre", "afs"})  # fmt: skip
PASSING: Final = frozenset({"tmpfs", "ramfs"})

DISK_PART: Final = 0.05
"""The free share of a disk below which it counts as nearly full."""

OTHERS: Final = 0o007


def file_system(path: Path, mounts: str) -> str:
    """Return the type of the file system that ``path`` is on, from the text of ``mountinfo``."""
    best, kind = "", ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        point = before.split()[4].encode().decode("unicode_escape") if before else ""
        inside = point == "/" or str(path) == point or str(path).startswith(f"{point}/")
        if inside and len(point) >= len(best):
            best, kind = point, after.split()[0]
    return kind


def disk_findings(path: Path, mounts: str, free: float) -> Iterator[Finding]:
    """Check where the directory is; ``free`` is the free share of its disk."""
    kind = file_system(path, mounts)
    if kind in OVER_NETWORK:
        yield error(
            "file-system", f"the data is on {kind}, over the network",
            "move it to a local disk or a block device: locks and fsync cannot be relied on there",
            str(path),
        )  # fmt: skip
    elif kind in PASSING:
        yield error(
            "file-system", f"the data is on {kind}: it is gone when the machine stops",
            "move it to a disk", str(path),
        )  # fmt: skip
    elif kind not in LOCAL:
        yield note(
            "file-system", f"the data is on {kind or 'an unknown file system'}",
            "make sure that locks and fsync work on it", str(path),
        )  # fmt: skip
    if free < DISK_PART:
        yield warning(
            "disk", f"{free:.1%} of the data's disk is free", "make room on it", str(path)
        )


def rights(path: Path) -> Iterator[Finding]:
    """Check who may read the stored data."""
    for each in (path, path / "data.mdb"):
        if each.exists() and each.stat().st_mode & OTHERS:
            yield warning(
                "rights", "everybody on the machine may open it", f"chmod o= {each}", str(each)
            )


def store(path: Path, check: Callable[[Path], list[str]]) -> Iterator[Finding]:
    """Check the content, if no broker has the directory open."""
    if not path.is_dir():
        yield error("store", "there is no such directory", "name the broker's data_dir", str(path))
        return
    rescue = f"arneb check {path} tells more, arneb salvage saves the rest"
    try:
        content = look_at(path)
    except ForeignDirectory as refused:
        yield error("store", str(refused), "name the broker's data_dir", str(path))
        return
    except StoreUnusable as refused:
        is_there = (path / "data.mdb").exists()
        yield error(
            "store", str(refused), rescue if is_there else "restore a backup if it is gone",
            str(path),
        )  # fmt: skip
        return
    if (holder := holder_of(path)) and is_held(path):  # a broker is writing to it
        yield warning(
            "no-answer", f"a broker (process {holder}) has it open, and cannot be asked",
            "look at its log: it may be starting or stopping; else stop it and start it again",
            str(path),
        )  # fmt: skip
        return
    try:
        found = check(path)
    except StoreUnusable as refused:
        yield error(
            "store", str(refused),
            rescue if content is Content.STORE else "name the broker's data_dir", str(path),
        )  # fmt: skip
        return
    if holder and not found:
        yield note(
            "unclean", f"the last broker (process {holder}) did not shut down cleanly",
            "start it again: nothing that was confirmed is lost", str(path),
        )  # fmt: skip
    for line in found[:10]:
        yield error(
            "damage", line, f"arneb salvage {path} OUT writes what is whole into a new directory",
            str(path),
        )  # fmt: skip


def checked(path: Path) -> list[str]:
    """Return what ``arneb check`` finds, without what a power cut may leave behind."""
    return [str(each) for each in check_store(path) if not each.is_doubt]


def directory_findings(
    path: Path, check: Callable[[Path], list[str]] = checked
) -> Iterator[Finding]:
    """Yield what is wrong with a directory that no broker has open."""
    yield from store(path.absolute(), check)
    yield from outside_findings(path)


def outside_findings(path: Path) -> Iterator[Finding]:
    """Yield what is wrong as seen from outside, also while a broker uses the directory."""
    path = path.absolute()
    if path.is_dir():
        usage = shutil.disk_usage(path)
        free = usage.free / usage.total
        yield from disk_findings(Path(os.path.realpath(path)), MOUNTS.read_text(), free)
        yield from rights(path)
