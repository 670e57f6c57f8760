"""Commits: nothing else writes to LMDB."""

from pathlib import Path
from typing import Final

from arneb_core import store

WRITERS: Final = {
    "commit/commits.py": 1,
    "data_file/creating.py": 1,  # a store that is new
    "salvage/salvaging.py": 1,  # likewise
    "data_file/live.py": 1,  # after LMDB gave up: makes certain what was found, and adds nothing
}
"""Where a transaction begins that may write, and how often."""


def test_write_transactions_begin_where_commits_are_made_and_nowhere_else() -> None:
    [folder] = store.__path__
    found: dict[str, int] = {}
    for path in Path(folder).parents[0].rglob("*.py"):
        count = path.read_text(encoding="utf-8").count("begin(write=True")
        if count:
            found[path.relative_to(folder).as_posix()] = count
    assert found == WRITERS
