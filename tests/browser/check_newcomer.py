"""A newcomer's path: from ``pip install`` of the wheel to the first message seen in the page."""

import os
import re
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Final

from playwright.sync_api import expect
from tests.browser.operator import REPOSITORY, chromium, operator

WITHIN_S: Final = 60.0

HTTP: Final = re.compile(r"http ready on (\S+)")


def test_the_first_message_is_seen_within_a_minute(tmp_path: Path) -> None:
    """The wheel is built before; what pip fetches counts."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    began = time.monotonic()
    pip = [str(tmp_path / "venv/bin/pip"), "install", "--quiet", str(wheel)]
    subprocess.run(pip, check=True)
    installed_s = time.monotonic() - began
    ports = [f"--{name}=127.0.0.1:0" for name in ("amqp", "pulsar", "http", "http-pulsar")]
    broker = subprocess.Popen(
        [str(tmp_path / "venv/bin/arneb"), "serve", f"--data-dir={tmp_path / 'data'}", *ports],
        stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=dict(os.environ),
    )  # fmt: skip
    try:
        assert broker.stdout is not None
        address = next(found[1] for line in broker.stdout if (found := HTTP.match(line)))
        with chromium() as browser, operator(browser, f"http://{address}/") as somebody:
            page = somebody.page
            somebody.log_in()
            somebody.go("#/queues")
            somebody.press("New queue")
            page.get_by_label("Name", exact=True).fill("first")
            somebody.press("Make it")
            page.get_by_role("link", name="first", exact=True).click()
            page.get_by_role("link", name="Publish").click()
            page.get_by_label("Body").fill("hello")
            somebody.press("Publish")
            page.get_by_role("navigation", name="Parts of this queue").get_by_role(
                "link", name="Messages"
            ).click()
            expect(page.get_by_role("article")).to_contain_text("hello")
            took_s = time.monotonic() - began
    finally:
        broker.terminate()
        broker.wait(30)
        assert broker.stdout is not None
        broker.stdout.close()
    print(f"{took_s:.1f} s, of which pip took {installed_s:.1f}")
    assert took_s < WITHIN_S
