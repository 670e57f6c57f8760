"""An operator at the page: a real browser over a real broker, as one person uses both.

The rule: what is done is done by what the page shows: labels, buttons and links, as a screen reader
names them. Debian's Chromium is used, and nothing is downloaded.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Page, expect, sync_playwright

from arneb.demo.process import BrokerProcess

REPOSITORY: Final = Path(__file__).resolve().parents[2]
AXE: Final = REPOSITORY / ".clients/axe-core/package/axe.min.js"
AXE_PACKAGE: Final = "axe-core@4.14.1"
CHROMIUM: Final = "chromium"

WITHIN_MS: Final = 10_000
"""In which whatever is expected has to be seen."""

DESKTOP: Final = {"width": 1440, "height": 900}
PHONE: Final = {"width": 390, "height": 844}


@dataclass
class Operator:
    """Somebody who has the page open, and what the browser complained of."""

    page: Page
    url: str
    complaints: list[str]

    def __post_init__(self) -> None:
        self.page.set_default_timeout(WITHIN_MS)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._heard)

    def _heard(self, message: Any) -> None:
        # A browser reports every status above 400 as an error; those are expected.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def log_in(self, name: str = "guest", password: str = "guest") -> None:
        self.page.goto(self.url)
        self.page.get_by_label("User").fill(name)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Log in").click()
        self.page.locator(".frame").wait_for()

    def go(self, hash_: str) -> None:
        """To one of the page's places, and wait until it shows it."""
        self.page.goto(f"{self.url}{hash_}")
        self.page.locator("main h1").wait_for()
        expect(self.page.locator("main [aria-busy=true]")).to_have_count(0)

    def sees(self, text: str) -> None:
        self.page.get_by_text(text).first.wait_for()

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def violations(self) -> Sequence[Mapping[str, Any]]:
        """What axe finds wrong with what is shown, of any impact."""
        # The page's policy runs no script that is put into it; a browser's own tools may.
        self.page.evaluate(AXE.read_text(encoding="utf-8") + "; 0")
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            {
                "rule": each["id"],
                "impact": each["impact"],
                "where": [node["html"][:160] for node in each["nodes"]],
            }
            for each in found["violations"]
        ]


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser. It must be there: ``make soak-page`` installs it."""
    path = shutil.which(CHROMIUM)
    assert path is not None, f"expected {CHROMIUM}: apt install {CHROMIUM}"
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def operator(
    browser: Browser,
    url: str,
    *,
    theme: str = "light",
    size: Mapping[str, int] = DESKTOP,
    ignores_certificates: bool = False,
    zone: str | None = None,
) -> Iterator[Operator]:
    """A person with a browser of their own. Raises AssertionError if the browser complained."""
    context = browser.new_context(
        viewport={"width": size["width"], "height": size["height"]},
        color_scheme="dark" if theme == "dark" else "light",
        accept_downloads=True,
        ignore_https_errors=ignores_certificates,
        timezone_id=zone,
        has_touch=size is PHONE,
    )
    found = Operator(context.new_page(), url, [])
    try:
        yield found
        assert found.complaints == [], json.dumps(found.complaints, indent=1)
    finally:
        context.close()


def url_of(broker: BrokerProcess) -> str:
    return f"http://{broker.addresses['http']}/"


def fetch_axe() -> None:
    """From npm, once."""
    if AXE.is_file():
        return
    folder = AXE.parents[1]
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["npm", "pack", "--silent", AXE_PACKAGE], cwd=folder, check=True)
    (package,) = folder.glob("*.tgz")
    shutil.unpack_archive(package, folder)
