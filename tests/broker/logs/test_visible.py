"""Names from outside, as the command line prints them."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb.logs.log_lines import VisibleFormatter
from arneb.logs.visible import visible
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import Table
from arneb_core.testing.store_kit import StoreModel

SLY = "a\u202eb\u2066c\u200fd\x1b[2Je\nf\u2028g"
"""Reversed text, hidden text, a cleared screen, and extra lines."""
SHOWN = r"a\u202eb\u2066c\u200fd\x1b[2Je\nf\u2028g"


@given(st.text(st.characters()))
def test_every_printed_character_is_visible(text: str) -> None:
    assert visible(text).isprintable()
    assert visible(visible(text)) == visible(text)


def test_a_name_that_is_visible_is_unchanged() -> None:
    assert visible("größe/訂單-1 ok") == "größe/訂單-1 ok"
    assert visible(SLY) == SHOWN
    assert visible("\udc80") == r"\udc80"


@pytest.mark.parametrize("command", ["topics", "check"])
def test_the_command_line_prints_names_that_way(tmp_path: Path, command: str) -> None:
    with Store.open(tmp_path / "data") as store:
        changes, model = Changes(), StoreModel()
        model.create_topic(changes, SLY)
        if command == "topics":
            model.subscribe(changes, SLY, SLY)
        else:
            changes.puts.append((Table.CATALOG, b"sly " + SLY.encode(), b""))
        store.commit(changes)
    done = subprocess.run(
        [sys.executable, "-m", "arneb", command, str(tmp_path / "data")],
        capture_output=True,
        check=False,
    )
    output = done.stdout.decode()
    assert SHOWN in output
    assert all(line.isprintable() for line in output.split("\n"))


def test_log_lines_contain_names_that_way_too() -> None:
    record = logging.LogRecord("x", logging.ERROR, "", 0, "topic %s", (SLY,), None)
    assert VisibleFormatter("%(message)s").format(record).startswith(r"topic a\u202eb")
