"""The files of the page: everything that a browser needs, and nothing that it should not have."""

import gzip
import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from docs.page_parts import PACKED_BYTES_MAX, differences, packed_bytes
from starlette.types import Message, Receive, Scope, Send

from arneb.http.page.files import POLICY, PREFIX, PageFiles, read_files

STATIC: Final = Path(__file__).parents[4] / "broker/arneb/http/page/static"
OWN: Final = sorted(STATIC.glob("js/**/*.js"))
MODULE_LINES_MAX: Final = 400

FORBIDDEN: Final = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\(|"
    r"new Function|javascript:|https?://"
)
"""Anything that would turn a text into markup, run inline script, or load from elsewhere."""


DECLARED: Final = re.compile(
    r"^(?:export (?:default )?)?(?:const|let|var|class|(?:async )?function\*?) +(\w+)", re.MULTILINE
)
IMPORTED: Final = re.compile(r"^import \{([^}]*)\}", re.MULTILINE)
"""The names of a module. One that has a name twice is not run, and nor is the page."""

OVERWRITTEN: Final = re.compile(
    r"<input(?![^\n]*(?:onInput|onChange))[^\n]* (?:value=\$|checked)|"
    r'<input(?![^\n]*(?:onInput|onChange|type="radio"))[^\n]* value='
)
"""A value that is set each time the page is drawn, over what somebody has typed. Only inputs whose
changes are noted may use it; others begin with ``defaultValue`` or ``defaultChecked``."""


async def behind(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b"behind"})


async def asked(
    path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """What a browser receives."""
    sent: list[Message] = []
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope: Scope = {"type": "http", "method": method, "path": path, "headers": raw}

    async def receive() -> Message:
        raise AssertionError("it has no body")

    async def send(message: Message) -> None:
        sent.append(message)

    await PageFiles(behind)(scope, receive, send)
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, sent[1]["body"]


async def test_the_page_comes_with_its_policy_and_cannot_be_framed() -> None:
    status, headers, body = await asked("/")
    assert status == 200
    assert headers["content-security-policy"] == POLICY
    assert "default-src 'self'" in POLICY
    assert "frame-ancestors 'none'" in POLICY
    assert "unsafe" not in POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert b'id="page"' in body


def test_a_module_declares_each_name_once() -> None:
    declared: Counter[tuple[str, str]] = Counter()
    for file in OWN:
        text = file.read_text(encoding="utf-8")
        names = DECLARED.findall(text)
        for each in IMPORTED.findall(text):
            names += [name.split()[-1] for name in each.split(",") if name.strip()]
        declared.update((str(file), name) for name in names)
    assert len(declared) > len(OWN)
    assert [name for name, count in declared.items() if count > 1] == []


@pytest.mark.parametrize("file", OWN, ids=lambda each: each.stem)
def test_nothing_is_written_over_what_somebody_types(file: Path) -> None:
    assert OVERWRITTEN.findall(file.read_text(encoding="utf-8")) == []


async def test_a_current_copy_is_not_sent_again() -> None:
    _, headers, body = await asked("/page/js/main.js", accept_encoding="gzip, br")
    assert headers["content-encoding"] == "gzip"
    assert gzip.decompress(body) == (STATIC / "js/main.js").read_bytes()
    status, _, again = await asked("/page/js/main.js", if_none_match=headers["etag"])
    assert (status, again) == (304, b"")


@pytest.mark.parametrize(
    "path", ["/page/", "/page", "/page/../files.py", "/page/vendor/parts.json", "/healthz", "/x"]
)
async def test_other_files_are_left_to_other_routes(path: str) -> None:
    assert (await asked(path))[0] == 404


async def test_nothing_can_be_changed_here() -> None:
    assert (await asked("/", "POST"))[0] == 404


def test_everything_that_the_files_name_exists() -> None:
    known = read_files()
    index = (STATIC / "index.html").read_text(encoding="utf-8")
    named = [f"/{each}" for each in re.findall(r'(?:href|src)="(page/[^"]+)"', index)]
    assert len(named) >= 5
    for module in OWN:
        text = module.read_text(encoding="utf-8")
        for each in re.findall(r'from "(\.[^"]+)"|import "(\.[^"]+)"', text):
            path = (module.parent / "".join(each)).resolve().relative_to(STATIC)
            named.append(f"{PREFIX}{path}")
    assert {each for each in named if each not in known} == set()


def test_every_module_says_what_it_is_and_stays_small() -> None:
    assert OWN
    for module in OWN:
        text = module.read_text(encoding="utf-8")
        assert text.startswith("/** "), module
        assert text.count("\n") <= MODULE_LINES_MAX, module


def test_a_name_is_text_and_never_markup() -> None:
    for module in OWN:
        found = FORBIDDEN.search(module.read_text(encoding="utf-8"))
        assert found is None, (module, found)


def test_no_style_and_no_script_is_in_markup() -> None:
    index = (STATIC / "index.html").read_text(encoding="utf-8")
    assert "<style" not in index
    assert not re.search(r"<script(?![^>]*\bsrc=)", index)
    assert not re.search(r"\s(style|on\w+)=", index)
    for module in OWN:
        assert not re.search(r"<\w+[^>]*\sstyle=[\"'$]", module.read_text(encoding="utf-8")), module


def test_third_party_files_are_unchanged() -> None:
    assert differences() == []


def test_the_whole_page_is_small() -> None:
    assert packed_bytes() < PACKED_BYTES_MAX / 2
