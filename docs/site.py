"""The site: the pages of docs as HTML, by mkdocs with its material theme.

The rule: the pages stay where they are, as they are read in the repository. What they link to and
is no page (a module, a test) stands in the site by its name alone; a link to nothing, or any
warning, ends the build.
``python docs/site.py`` writes build/site.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

import yaml

REPOSITORY: Final = Path(__file__).resolve().parents[1]
DOCS: Final = REPOSITORY / "docs"
SITE: Final = REPOSITORY / "build/site"
PICTURES: Final = REPOSITORY / "build/page"
"""Of the page, if ``make soak-page`` has left some."""

CHAPTER: Final = DOCS / "guide/page.md"
FIRST: Final = ("overview", "queues", "queue", "subscriptions", "messages", "bindings", "cluster")
"""Pictures that tell most; the others follow."""
LOOKS: Final = {"light-1440": "light", "dark-1440": "dark", "light-390": "on a phone"}

LINK: Final = re.compile(r"\[([^\[\]]*)\]\(([^)\s]+)\)")

ORDER: Final = {
    "Guide": "guide",
    "Internals": "internals",
    "Decisions": "decisions",
}

NAMES: Final = {"README.md": "index.md"}


def copied(into: Path, pictures: Path = PICTURES) -> list[str]:
    """Copy every page, its links made those of the site; which links lead nowhere."""
    wrong: list[str] = []
    pages = [REPOSITORY / "README.md", REPOSITORY / "CHANGELOG.md", *DOCS.rglob("*.md")]
    for page in pages:
        target = into / _place(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = page.read_text(encoding="utf-8")
        text = LINK.sub(partial(_link, page, wrong, pages), text)
        if page == CHAPTER:
            text += _pictures(pictures)
        target.write_text(text, encoding="utf-8")
    for picture in (*DOCS.rglob("*.svg"), *pictures.rglob("*.png")):
        root = DOCS if picture.is_relative_to(DOCS) else pictures.parent
        target = into / picture.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, target)
    return wrong


def _pictures(pictures: Path) -> str:
    """The page as the browser tests saw it, for the chapter about it; nothing if they did not."""
    there = {each.stem for folder in LOOKS for each in (pictures / folder).glob("*.png")}
    shown = [
        f"![{name}, {look}](../{pictures.name}/{folder}/{name}.png){{ loading=lazy }}"
        for name in (*FIRST, *sorted(there - set(FIRST)))
        for folder, look in LOOKS.items()
        if (pictures / folder / f"{name}.png").is_file()
    ]
    return "\n\n".join(("", "## How it looks", *shown, "")) if shown else ""


def _place(page: Path) -> Path:
    """Where a page stands in the site."""
    inside = page.relative_to(DOCS if page.is_relative_to(DOCS) else REPOSITORY)
    return inside.with_name(NAMES.get(inside.name, inside.name))


def _link(page: Path, wrong: list[str], pages: list[Path], found: re.Match[str]) -> str:
    text, link = found.groups()
    path, hash_, anchor = link.partition("#")
    if "://" in link or link.startswith(("#", "mailto:")):
        return found[0]
    target = (page.parent / path).resolve()
    if not target.exists():
        wrong.append(f"{page.relative_to(REPOSITORY)}: {link} leads nowhere")
        return found[0]
    if target.is_dir() and target / "README.md" in pages:
        target /= "README.md"
    if target in pages or (target.suffix == ".svg" and target.is_relative_to(DOCS)):
        place = _place(target) if target in pages else target.relative_to(DOCS)
        up = "../" * (len(_place(page).parts) - 1)
        return f"[{text}]({up}{place.as_posix()}{hash_}{anchor})"
    return text


def configuration(pages: Path, site: Path) -> dict[str, object]:
    """What mkdocs is told."""
    nav: list[object] = [{"Start": "index.md"}]
    for title, folder in ORDER.items():
        names = sorted(each.relative_to(pages).as_posix() for each in (pages / folder).glob("*.md"))
        names.sort(key=lambda each: not each.endswith("index.md"))
        nav.append({title: names})
    others = ("ARCHITECTURE.md", "glossary.md", "CHANGELOG.md")
    nav.append({"More": [each for each in others if (pages / each).is_file()]})
    return {
        "site_name": "Arneb",
        "docs_dir": str(pages),
        "site_dir": str(site),
        "strict": True,
        "theme": {"name": "material", "font": False, "features": ["navigation.tabs"]},
        "plugins": ["search"],
        "markdown_extensions": ["tables", "fenced_code", "toc", "admonition", "attr_list"],
        "nav": nav,
        "validation": {"nav": {"omitted_files": "info"}, "links": {"anchors": "warn"}},
    }


def build(site: Path = SITE) -> None:
    """Raises :class:`ValueError` for links that lead nowhere, and CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        pages = Path(folder) / "pages"
        if wrong := copied(pages):
            raise ValueError("\n".join(wrong))
        told = Path(folder) / "mkdocs.yml"
        told.write_text(yaml.safe_dump(configuration(pages, site)), encoding="utf-8")
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", str(told)]
        # The theme warns each time of an mkdocs to come, which is no matter of our pages.
        subprocess.run(command, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})


if __name__ == "__main__":
    build()
