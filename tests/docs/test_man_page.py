"""The manual page says what the commands say, in macros that roff knows."""

import shutil
import subprocess

import pytest
from docs import man_page

from arneb.cli import COMMANDS


def test_the_page_is_what_the_commands_say() -> None:
    written = man_page.PAGE.read_text(encoding="utf-8")
    assert written == man_page.page(), "run python docs/man_page.py"
    for command in COMMANDS:
        assert f".SS arneb {command}".replace("-", r"\-") in written


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_roff_has_nothing_to_say_against_it() -> None:
    command = ["groff", "-man", "-ww", "-z", "-Tutf8", str(man_page.PAGE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
